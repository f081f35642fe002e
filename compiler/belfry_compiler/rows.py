"""Do rows see each other? The check that stands before batching, and the one for 'deterministic'.

A row of a batch may belong to another client than its neighbours. Sample rows are run alone, joined, permuted, and
beside neighbours that are replaced by very different ones: large, not numbers, padding. A row's answer must stay the
same but for the rounding of sums that are added in another order. How much that is, is measured for each output:
between the artifact and eager on equal inputs, and by moving every input by a few units in its last place. Neighbours
that are not numbers need no measure at all: what they touch becomes not a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from belfry_compiler.compare import difference, same_bits
from belfry_compiler.errors import CompilerError
from belfry_compiler.neighbours import permuted, replace_rows, variants
from belfry_compiler.numerics import Numerics, run_artifact, sizes_to_check
from belfry_compiler.options import Options
from belfry_compiler.padding import check_padding
from belfry_compiler.program import Program
from belfry_compiler.samples import Sampler
from belfry_compiler.signature import DEFAULT_MAX_BATCH, Signature, TensorSpec
from belfry_compiler.targets.base import Runner

_ROWS = 6
_MANY_ROWS = 33
# Rounding differs by more than what one measurement shows, and by far less than one row differs from another.
_NOISE_FACTOR = 32.0
_NOISE_FLOOR_ULPS = 64.0
# To the bit, these show all that the others do, on batches that may be a thousand rows.
_TELLING_NEIGHBOURS = ("padding", "others", "not numbers")


@dataclass
class Rows:
    """What the checks found; part of the report."""

    checked: bool = False
    independent: bool = False
    detail: str = ""
    deterministic: dict[str, Any] = field(default_factory=lambda: {"checked": False, "size": 0})

    def report(self) -> dict[str, Any]:
        return {"checked": self.checked, "independent": self.independent, "detail": self.detail}


def check_rows(
    program: Program, signature: Signature, options: Options, sampler: Sampler, run: Runner, numerics: Numerics
) -> Rows:
    """Makes the signature unbatched where rows see each other. Raises where padding or determinism fails."""
    rows = Rows()
    check = _Check(program, signature, options, sampler, run)
    if signature.batch.batchable:
        rows.checked = True
        rows.detail = check.dependence()
        rows.independent = not rows.detail
        if rows.detail:
            signature.unbatched(f"rows see each other: {rows.detail}")
    else:
        rows.detail = "there is no batch axis to check"
    check_padding(signature, sampler, run, numerics)
    if options.deterministic:
        rows.deterministic = check.determinism()
    return rows


class _Check:
    """One model's rows. Tensors are cut along each tensor's own batch axis."""

    def __init__(self, program: Program, signature: Signature, options: Options, sampler: Sampler, run: Runner) -> None:
        self._program = program
        self._signature = signature
        self._options = options
        self._sampler = sampler
        self._run = run
        self._sizes = dict(sizes_to_check(signature, options)[0])
        self._noise: list[float] = []

    def dependence(self) -> str:
        """How rows see each other, for people; empty when they do not."""
        for count in self._counts():
            inputs = self._inputs(count)
            joined = self._answers(inputs)
            self._measure_noise(inputs, joined)
            for step in (self._alone, self._permuted, self._beside_others):
                found = step(inputs, joined)
                if found:
                    return found
        return ""

    def determinism(self) -> dict[str, Any]:
        """At the one size that batches have, a row's answer is the same to the bit, wherever and beside whom."""
        if not self._signature.batch.batchable:
            return {"checked": True, "size": 0}
        size = self._one_size()
        inputs = self._inputs(size)
        joined = self._answers(inputs)
        for how, order, changed in self._arrangements(inputs, size):
            answers = self._answers(changed)
            for spec, before, after in zip(self._signature.outputs, joined, answers, strict=True):
                axis = spec.batch_axis
                rows = [(row, place) for place, row in enumerate(order) if row is not None]
                wanted = before.index_select(axis, torch.tensor([row for row, _ in rows]))
                got = after.index_select(axis, torch.tensor([place for _, place in rows]))
                if not same_bits(wanted, got):
                    off = difference(got, wanted, 0.0, 0.0)
                    text = f"output {spec.name} is not the same to the bit in batches of {size}: a row {how}"
                    raise CompilerError("tolerance", f"{text} differs by {off.max_abs:.3g}; choose another max_batch")
        return {"checked": True, "size": size}

    def _counts(self) -> list[int]:
        fixed = self._signature.batch.fixed
        if fixed:
            return [fixed] if fixed > 1 else []
        batch = self._signature.symbol(self._signature.batch.symbol)
        counts = [batch.clamp(_ROWS), batch.clamp(_MANY_ROWS)]
        return [count for count in dict.fromkeys(counts) if count > 1]

    def _one_size(self) -> int:
        if self._signature.batch.fixed:
            return self._signature.batch.fixed
        batch = self._signature.symbol(self._signature.batch.symbol)
        return batch.clamp(self._options.max_batch or DEFAULT_MAX_BATCH)

    def _inputs(self, count: int) -> list[torch.Tensor]:
        return self._sampler.inputs({**self._sizes, "batch": count}, salt=count)

    def _answers(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return run_artifact(self._run, inputs, {**self._sizes, "rows": self._count(inputs)})

    def _count(self, inputs: list[torch.Tensor]) -> int:
        return inputs[0].shape[self._signature.inputs[0].batch_axis]

    def _measure_noise(self, inputs: list[torch.Tensor], joined: list[torch.Tensor]) -> None:
        """For each output: how far rounding alone moves it."""
        eager = self._program.run(inputs)
        moved = self._answers([_nudged(tensor) for tensor in inputs])
        self._noise = []
        for answer, reference, nudged in zip(joined, eager, moved, strict=True):
            if not answer.dtype.is_floating_point:
                self._noise.append(0.0)
                continue
            seen = max(difference(other, answer, 0.0, 0.0).max_abs for other in (reference, nudged))
            finite = answer[answer.isfinite()].abs()
            scale = float(finite.max()) if finite.numel() else 0.0
            floor = _NOISE_FLOOR_ULPS * torch.finfo(answer.dtype).eps * scale
            self._noise.append(max(_NOISE_FACTOR * seen, floor))

    def _alone(self, inputs: list[torch.Tensor], joined: list[torch.Tensor]) -> str:
        count = self._count(inputs)
        for row in _some_rows(count):
            alone, place = self._alone_inputs(inputs, row)
            found = self._compare(joined, row, self._answers(alone), place)
            if found:
                return f"{found} when it is joined with {count - 1} other rows"
        return ""

    def _alone_inputs(self, inputs: list[torch.Tensor], row: int) -> tuple[list[torch.Tensor], int]:
        """The row with nobody beside it, and its place; where the model wants more rows, they are padding."""
        padding = variants(self._sampler)[0]
        if self._signature.batch.fixed:
            return replace_rows(self._signature, inputs, row, padding), row
        fewest = self._signature.symbol(self._signature.batch.symbol).low
        alone = self._select(self._signature.inputs, inputs, [row] * fewest)
        return (alone if fewest == 1 else replace_rows(self._signature, alone, 0, padding)), 0

    def _permuted(self, inputs: list[torch.Tensor], joined: list[torch.Tensor]) -> str:
        count = self._count(inputs)
        order = permuted(count)
        answers = self._answers(self._select(self._signature.inputs, inputs, order))
        for place, row in enumerate(order):
            found = self._compare(joined, row, answers, place)
            if found:
                return f"{found} when the rows of its batch change places"
        return ""

    def _beside_others(self, inputs: list[torch.Tensor], joined: list[torch.Tensor]) -> str:
        for variant in variants(self._sampler):
            for row in _some_rows(self._count(inputs)):
                answers = self._answers(replace_rows(self._signature, inputs, row, variant))
                found = self._compare(joined, row, answers, row)
                if found:
                    return f"{found} when the rows beside it are {variant.name}"
        return ""

    def _compare(self, before: list[torch.Tensor], row: int, after: list[torch.Tensor], place: int) -> str:
        for spec, noise, old, new in zip(self._signature.outputs, self._noise, before, after, strict=True):
            if new.dim() != old.dim():
                return f"output {spec.name} has another number of axes"
            found = difference(new.select(spec.batch_axis, place), old.select(spec.batch_axis, row), 0.0, noise)
            if not found.misses:
                continue
            if not old.dtype.is_floating_point:
                return f"the answer of a row in output {spec.name} changes ({found.detail})"
            amount = "becomes another number or none" if found.max_abs == 0 else f"changes by {found.max_abs:.3g}"
            return f"the answer of a row in output {spec.name} {amount} (rounding explains {noise:.1g})"
        return ""

    def _arrangements(
        self, inputs: list[torch.Tensor], size: int
    ) -> Iterator[tuple[str, list[int | None], list[torch.Tensor]]]:
        """(how, which row stands at each place, inputs): other places, and other neighbours."""
        for shift in sorted({1, size // 2, size - 1} - {0}):
            order = [(place + shift) % size for place in range(size)]
            yield "in another place", list(order), self._select(self._signature.inputs, inputs, order)
        mixed = permuted(size)
        yield "in another place", list(mixed), self._select(self._signature.inputs, inputs, mixed)
        for variant in variants(self._sampler):
            if variant.name not in _TELLING_NEIGHBOURS:
                continue
            for row in _some_rows(size):
                order = [row if place == row else None for place in range(size)]
                yield f"beside rows that are {variant.name}", order, replace_rows(self._signature, inputs, row, variant)

    def _select(self, specs: list[TensorSpec], tensors: list[torch.Tensor], rows: list[int]) -> list[torch.Tensor]:
        index = torch.tensor(rows)
        return [tensor.index_select(spec.batch_axis, index) for spec, tensor in zip(specs, tensors, strict=True)]


def _some_rows(count: int) -> list[int]:
    return sorted({0, count // 2, count - 1})


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    """Every number moved by two units in its last place, up and down in turn."""
    if not tensor.dtype.is_floating_point:
        return tensor
    step = 2 * torch.finfo(tensor.dtype).eps
    signs = torch.ones(tensor.numel(), dtype=tensor.dtype)
    signs[::2] = -1
    return tensor * (1 + step * signs.reshape(tensor.shape))
