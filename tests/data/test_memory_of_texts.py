"""What reading texts and fitting topics take of memory: 1 GB of text needs less than 2 GB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
import numpy as np
import temperance as tp

size, rng = int(sys.argv[1]) * 10**6, np.random.default_rng(0)
# Words as in English: half of all tokens are stop words, the others have Zipf-like frequencies and about seven letters.
words = [f"w{number:06d}" for number in range(30_000)]
levels = np.cumsum(1.0 / (10.0 + np.arange(len(words))))

def texts():
    done = 0
    while done < size:
        drawn = np.searchsorted(levels, levels[-1] * rng.random((100, 150)))
        for row in drawn:
            text = " ".join(f"the {words[place]}" for place in row)
            done += len(text)
            yield text

corpus = tp.read_texts(texts())
tp.fit(tp.LDA(20), corpus, tp.CVB0(batch_size=256, passes=0.05), progress=False).transform(corpus.take(slice(0, 4096)))
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024)
"""


def peak(megabytes: int) -> float:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    found = subprocess.run(
        [sys.executable, "-c", CODE, str(megabytes)], env=environment, capture_output=True, text=True, check=True
    )
    return float(found.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_gigabyte_of_text_needs_less_than_two() -> None:
    # From 80 MB on what is allotted once has been: the padding of small corpora, and blocks of documents.
    few, many = peak(80), peak(160)
    slope = (many - few) / 80
    assert many + slope * (1000 - 160) < 2000, f"{few:.0f} and {many:.0f} MB"
