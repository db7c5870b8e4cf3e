"""Exponential families as points of a vector space, and the likelihoods each is conjugate to."""

from ._family import Family, Vector
from ._pair import Pair
from .beta import Bernoulli, Beta, BetaVector
from .categorical import BernoulliDistribution, BernoulliVector, CategoricalDistribution, CategoricalVector
from .dirichlet import Categorical, Dirichlet, DirichletVector, Multinomial
from .gamma import Gamma, GammaVector, Poisson
from .independent import Independent, IndependentPair, IndependentVector
from .matrix_normal import (
    MatrixNormal,
    MatrixNormalGamma,
    MatrixNormalGammaVector,
    MatrixNormalVector,
    WeightsAndScale,
)
from .matrix_normal_wishart import (
    LinearGaussian,
    MatrixNormalWishart,
    MatrixNormalWishartVector,
    WeightsAndPrecision,
)
from .missing import GaussianWithMissing, SphericalWithMissing
from .normal import KnownCovarianceGaussian, Normal, NormalVector
from .normal_gamma import (
    IsotropicNormalGamma,
    IsotropicNormalGammaVector,
    NormalGamma,
    NormalGammaVector,
    ScalarGaussian,
    SphericalGaussian,
)
from .normal_wishart import Gaussian, MeanAndPrecision, NormalWishart, NormalWishartVector
from .point import Point
from .product import Product, ProductPair, ProductVector
from .wishart import Wishart, WishartVector

__all__ = [
    "Bernoulli",
    "BernoulliDistribution",
    "BernoulliVector",
    "Beta",
    "BetaVector",
    "Categorical",
    "CategoricalDistribution",
    "CategoricalVector",
    "Dirichlet",
    "DirichletVector",
    "Family",
    "Gamma",
    "GammaVector",
    "Gaussian",
    "GaussianWithMissing",
    "Independent",
    "IndependentPair",
    "IndependentVector",
    "IsotropicNormalGamma",
    "IsotropicNormalGammaVector",
    "KnownCovarianceGaussian",
    "LinearGaussian",
    "MatrixNormal",
    "MatrixNormalGamma",
    "MatrixNormalGammaVector",
    "MatrixNormalVector",
    "MatrixNormalWishart",
    "MatrixNormalWishartVector",
    "MeanAndPrecision",
    "Multinomial",
    "Normal",
    "NormalGamma",
    "NormalGammaVector",
    "NormalVector",
    "NormalWishart",
    "NormalWishartVector",
    "Pair",
    "Point",
    "Poisson",
    "Product",
    "ProductPair",
    "ProductVector",
    "ScalarGaussian",
    "SphericalGaussian",
    "SphericalWithMissing",
    "Vector",
    "WeightsAndPrecision",
    "WeightsAndScale",
    "Wishart",
    "WishartVector",
]
