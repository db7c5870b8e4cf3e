"""Small real data sets: four come with the package, others are read from the folder in TEMPERANCE_DATA."""

from ._describe import Description, describe
from ._load import UnknownDataset, load, names
from ._read import MalformedDataset

__all__ = ["Description", "MalformedDataset", "UnknownDataset", "describe", "load", "names"]
