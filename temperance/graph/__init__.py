"""A small modelling language: nodes and plates, compiled to a model that runs under every method."""

from .compiled import GraphModel
from .errors import NotConjugate, PlateMismatch
from .language import Graph
from .nodes import Node

__all__ = ["Graph", "GraphModel", "Node", "NotConjugate", "PlateMismatch"]
