"""What tempering costs: a sweep of annealed VB, VT and LVT beside a sweep of VB, and what is worked out before."""

from __future__ import annotations

import numpy as np

import temperance as tp
from temperance.inference.variational.critical import critical_temperature
from temperance.models.renormalised import log_tempered_normaliser

from ._timing import alternate, per_iteration, report, seconds


def problems() -> dict[str, tuple[tp.models.Model, np.ndarray, int, int]]:
    rng = np.random.default_rng(0)
    points = rng.normal(scale=3.0, size=(16, 8))[rng.integers(16, size=50_000)] + rng.normal(size=(50_000, 8))
    pictures = (rng.random((20_000, 8)) < 0.3) @ rng.random((8, 64)) + np.sqrt(0.1) * rng.normal(size=(20_000, 64))
    known = tp.Mixture(16, tp.KnownCovarianceGaussian(np.eye(8)), prior=tp.Normal(np.zeros(8), 10.0 * np.eye(8)))
    return {
        "Gaussian mixture (50000, 8, 16)": (tp.GaussianMixture(16), points, 5, 45),
        "known covariance (50000, 8, 16)": (known, points, 5, 45),
        "factorial mixture (20000, 64, 8)": (
            tp.FactorialMixture(8, noise=0.1, probability=0.3, factor_variance=0.35),
            pictures,
            5,
            45,
        ),
    }


def main() -> None:
    for name, (model, x, few, many) in problems().items():

        def plain(i: int, model=model, x=x) -> object:
            return tp.fit(model, x, tp.VB(max_iter=i, tol=0.0), progress=False)

        def annealed(i: int, model=model, x=x) -> object:
            method = tp.Annealed(tp.VB(max_iter=1, tol=0.0), "geometric", start=5.0, length=i)
            return tp.fit(model, x, method, progress=False)

        others = {"annealed": annealed}
        if "Gaussian mixture" not in name:
            others["VT"] = lambda i, model=model, x=x: tp.fit(
                model, x, tp.VT(np.geomspace(1, 10, 20), method=tp.VB(max_iter=1, tol=0.0), length=i), progress=False
            )
        others["LVT"] = lambda i, model=model, x=x: tp.fit(
            model, x, tp.LVT(method=tp.VB(max_iter=1, tol=0.0), length=i), progress=False
        )
        for label, run in others.items():
            plain(few), run(few)
            here, there, ratios = alternate(
                lambda plain=plain, few=few, many=many: per_iteration(plain, few, many),
                lambda run=run, few=few, many=many: per_iteration(run, few, many),
                rounds=5,
            )
            report(f"{name}: VB and {label}", here, there, ratios)
        complete, data = model.prepare(x)
        critical_temperature(complete, data)
        print(f"{'':44s} critical temperature: {seconds(lambda: critical_temperature(complete, data)):.2f} s")  # noqa: B023
        if "VT" in others:
            grid = np.geomspace(1, 10, 100)
            took = seconds(lambda: log_tempered_normaliser(complete, grid, data))  # noqa: B023
            print(f"{'':44s} log C at 100 temperatures: {took:.2f} s")


if __name__ == "__main__":
    main()
