"""Draw docs/images/tempering-paper-sizes.png: what heat gains over SVI on corpora of the paper's sizes.

    python docs/tools/figures/tempering_sizes.py [PATH]

The numbers are those of the table in docs/measurements/tempering.md (`python -m benchmarks.tempering_gpu`).
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CORPORA = (
    "simulated, as large as the\nNew York Times (1.7 M × 8,000)",
    "simulated, as large as\narXiv (0.64 M × 14,000)",
    "simulated, as large as\nWikipedia (3.6 M × 7,702)",
)
COMPLETION = {
    "SVI": (-6.097, -7.264, -6.361),
    "AVI, a tenth of a pass": (-6.252, -7.377, -6.129),
    "AVI, one pass": (-6.094, -7.454, -6.053),
    "VT": (-6.351, -7.374, -6.197),
    "LVT": (-6.263, -7.138, -6.207),
    "tp.Annealed with its pilot": (-5.928, -6.768, -6.033),
}
BETTER, WORSE, GREY = "#0072B2", "#D55E00", "#777777"


def main(path: str = "docs/images/tempering-paper-sizes.png") -> None:
    plain, methods = COMPLETION["SVI"], [name for name in COMPLETION if name != "SVI"]
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.4), sharex=True, sharey=True, layout="constrained")
    for column, (panel, title) in enumerate(zip(panels, CORPORA, strict=True)):
        for row, name in enumerate(reversed(methods)):
            gain = COMPLETION[name][column] - plain[column]
            colour = BETTER if gain > 0.02 else WORSE if gain < -0.02 else GREY
            panel.plot([0, gain], [row, row], color=colour, linewidth=2.5, solid_capstyle="round")
            panel.plot(gain, row, "o", color=colour, markersize=8)
            side = 6 if gain >= 0 else -6
            panel.annotate(
                f"{gain:+.2f}",
                (gain, row),
                (side, 7),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=colour,
            )
        panel.axvline(0, color="#bbbbbb", linewidth=1)
        panel.set_title(title, fontsize=11)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(left=False)
    panels[0].set_yticks(range(len(methods)), list(reversed(methods)))
    panels[0].set_ylim(-0.6, len(methods) - 0.3)
    panels[0].set_xlim(-0.36, 0.64)
    figure.supxlabel("gain over SVI, held-out nats per token (documents × words; one seed)", fontsize=10)
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    main(*sys.argv[1:2])
