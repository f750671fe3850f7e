"""Whose tokens begin like these? A tree of token runs, one for each namespace.

Prompts of a service share long beginnings: a system prompt, a conversation so far. Comparing a new
prompt with every known one costs their number times their length; a radix tree walks each shared
run once, and numpy compares a run in one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference.engine.sequence import TokenArray


class RadixNode:
    """The run of tokens on the way into this node; `holders` have all of it."""

    __slots__ = ("children", "holders", "parent", "run")

    def __init__(self, run: TokenArray, parent: RadixNode | None, holders: set[int]) -> None:
        self.run = run
        self.parent = parent
        self.holders = holders
        self.children: dict[int, RadixNode] = {}


@dataclass(frozen=True, slots=True)
class Overlap:
    """All `holders` begin with the first `num_tokens` tokens of what was asked for."""

    num_tokens: int
    holders: frozenset[int]


NO_TOKENS: TokenArray = np.empty(0, dtype=np.int32)


def num_common(one: TokenArray, other: TokenArray) -> int:
    """Length of the common beginning of two int32 arrays."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length


class RadixTree:
    """Maps token sequences (int32 arrays, never changed afterwards) to the ids that hold them.

    Every node has a holder, a node with one child ends somebody's tokens, and different namespaces
    have no node in common, so that no look-up can cross their border.
    """

    def __init__(self) -> None:
        self._roots: dict[str, RadixNode] = {}
        self._ends: dict[int, RadixNode] = {}
        self._namespaces: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def namespace(self, holder: int) -> str:
        return self._namespaces[holder]

    def tokens(self, holder: int) -> TokenArray:
        """All tokens that a holder has, int32."""
        node: RadixNode | None = self._ends[holder]
        runs: list[TokenArray] = []
        while node is not None:
            runs.append(node.run)
            node = node.parent
        return np.concatenate(runs[::-1])

    def root(self, namespace: str) -> RadixNode | None:
        """Where walks of a namespace begin; None where nobody holds anything in it."""
        return self._roots.get(namespace)

    def insert(self, holder: int, namespace: str, token_ids: TokenArray) -> None:
        """`holder`, which is not in the tree yet, has these tokens."""
        if holder in self._ends:
            raise RuntimeError(f"{holder} is in the tree already")
        node = self._roots.setdefault(namespace, RadixNode(NO_TOKENS, None, set()))
        node.holders.add(holder)
        rest = token_ids
        while len(rest):
            child = node.children.get(int(rest[0]))
            if child is None:
                child = node.children[int(rest[0])] = RadixNode(rest, node, {holder})
                node = child
                break
            length = num_common(child.run, rest)
            if length < len(child.run):
                child = self._split(child, length)
            child.holders.add(holder)
            node, rest = child, rest[length:]
        self._ends[holder] = node
        self._namespaces[holder] = namespace

    def remove(self, holder: int) -> None:
        """Forget a holder and what only it had."""
        node: RadixNode | None = self._ends.pop(holder)
        namespace = self._namespaces.pop(holder)
        while node is not None:
            node.holders.discard(holder)
            parent = node.parent
            if not node.holders:
                if parent is None:
                    del self._roots[namespace]
                else:
                    del parent.children[int(node.run[0])]
            elif parent is not None:
                self._join(node)
            node = parent

    def overlaps(self, namespace: str, token_ids: TokenArray) -> list[Overlap]:
        """Who begins like `token_ids`, the longest first: each is a part of those after it."""
        node = self._roots.get(namespace)
        found: list[Overlap] = []
        rest = token_ids
        while node is not None and len(rest):
            node = node.children.get(int(rest[0]))
            if node is None:
                break
            length = num_common(node.run, rest)
            rest = rest[length:]
            found.append(Overlap(len(token_ids) - len(rest), frozenset(node.holders)))
            if length < len(node.run):
                break
        found.reverse()
        return found

    def _split(self, node: RadixNode, length: int) -> RadixNode:
        """Cut a node's run in two; returns the upper half. Holders still end in the lower one."""
        parent = node.parent
        assert parent is not None
        upper = RadixNode(node.run[:length], parent, set(node.holders))
        parent.children[int(node.run[0])] = upper
        node.run, node.parent = node.run[length:], upper
        upper.children[int(node.run[0])] = node
        return upper

    def _join(self, node: RadixNode) -> None:
        """Undo a split that nobody needs any more: one child, and nobody ends here."""
        if len(node.children) != 1:
            return
        (child,) = node.children.values()
        if child.holders != node.holders:
            return
        node.run = np.concatenate([node.run, child.run])
        node.children = child.children
        for grandchild in node.children.values():
            grandchild.parent = node
        for holder in child.holders:
            if self._ends[holder] is child:
                self._ends[holder] = node

    def check_integrity(self) -> None:
        """Raise AssertionError unless the class's promises hold in every node."""
        for namespace, root in self._roots.items():
            members = {holder for holder, name in self._namespaces.items() if name == namespace}
            if root.holders != members or not members:
                raise AssertionError(f"{self!r}: a root has holders {root.holders}, not {members}")
            self._check_below(root)
        if self._ends.keys() != self._namespaces.keys():
            raise AssertionError(f"{self!r}: holders without a namespace")

    def _check_below(self, top: RadixNode) -> None:
        waiting = [top]
        while waiting:
            node = waiting.pop()
            ending = {holder for holder in node.holders if self._ends[holder] is node}
            below: set[int] = set()
            for token_id, child in node.children.items():
                is_linked = child.parent is node and len(child.run) and int(child.run[0]) == token_id
                if not is_linked or not child.holders or child.holders & (below | ending):
                    raise AssertionError(f"{self!r}: a node of {child.holders} is misplaced")
                below |= child.holders
                waiting.append(child)
            if node.holders != below | ending:
                raise AssertionError(f"{self!r}: {node.holders - below - ending} end nowhere")
            if node.parent is not None and len(node.children) == 1 and not ending:
                raise AssertionError(f"{self!r}: a node that nobody needs")

    def __repr__(self) -> str:
        return f"<RadixTree {len(self._ends)} holders in {len(self._roots)} namespaces>"
