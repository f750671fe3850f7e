"""Looks up many prompts that begin alike, and walks what they share once.

Who ranks a queue asks for hundreds of prompts at a time. One by one, each would be compared token by
token from its beginning; here the way to where the one before left off is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inference.engine.radix_tree import RadixNode, num_common
from inference.engine.sequence import TokenArray


@dataclass(slots=True)
class Station:
    """A node that the prompt has gone through: `end` tokens lead to its end, and of what was passed so
    far, `most` tokens have cells with one holder."""

    node: RadixNode
    end: int
    most: int


class RadixWalk:
    """A walk through the tree of one namespace, while nobody changes it. `root` None is an empty tree.

    `num_cells` says how many tokens of a holder have cells.
    """

    def __init__(self, root: RadixNode | None, num_cells: Callable[[int], int]) -> None:
        self._root = root
        self._num_cells = num_cells
        self._most_of: dict[RadixNode, int] = {}
        self._path: list[Station] = []
        self._num_walked = 0
        self._most = 0

    def longest(self, tokens: TokenArray, num_shared: int) -> int:
        """The longest beginning of `tokens` that one holder has in cells. Its first `num_shared` tokens
        are those of the prompt before it."""
        if self._root is None:
            return 0
        if num_shared > self._num_walked:
            return self._most
        while self._path and self._path[-1].end > num_shared:
            self._path.pop()
        return self._go_on(self._root, tokens, num_shared)

    def _go_on(self, root: RadixNode, tokens: TokenArray, num_shared: int) -> int:
        node, at, most = root, 0, 0
        if self._path:
            last = self._path[-1]
            node, at, most = last.node, last.end, last.most
        while at < len(tokens):
            child = node.children.get(int(tokens[at]))
            if child is None:
                break
            known = max(num_shared - at, 0)
            length = known + num_common(child.run[known:], tokens[at + known :])
            at += length
            most = max(most, min(at, self._most_cells(child)))
            if length < len(child.run):
                break
            node = child
            self._path.append(Station(node, at, most))
        self._num_walked, self._most = at, most
        return most

    def _most_cells(self, node: RadixNode) -> int:
        """Of one holder of a node; looked up once for all prompts that come by."""
        most = self._most_of.get(node)
        if most is None:
            most = self._most_of[node] = max(map(self._num_cells, node.holders))
        return most
