"""The numerical base of everything else: linear algebra, special functions, and sums over latents."""

import os

# Since jaxlib 0.10 a batch of factorisations is shared out among XLA's threads, and the thread that does so waits
# for the others. With two threads, two such batches at once wait for each other for ever. XLA makes its threads
# when the first array is made; this many have never all been waiting, and cost nothing measurable.
os.environ.setdefault("PJRT_NPROC", str(max(16, os.cpu_count() or 1)))
