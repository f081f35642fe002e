"""Small models, one for each thing that the compiler must understand or refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


def _export(module: nn.Module, args: tuple[Any, ...], shapes: Any, **kwargs: Any) -> ExportedProgram:
    with torch.no_grad():
        return export(module.eval() if kwargs.pop("evaluate", True) else module, args, dynamic_shapes=shapes, **kwargs)


def _batch(high: int = 256) -> Dim:
    return Dim("batch", min=1, max=high)


class Mlp(nn.Module):
    def __init__(self, last: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 3))
        self.last = last or nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x))


def mlp() -> ExportedProgram:
    return _export(Mlp(), (torch.randn(4, 30),), ({0: _batch()},))


def mlp_softmax() -> ExportedProgram:
    return _export(Mlp(nn.Softmax(dim=1)), (torch.randn(4, 30),), ({0: _batch()},))


def mlp_static() -> ExportedProgram:
    return _export(Mlp(), (torch.randn(8, 30),), None)


def batch_softmax() -> ExportedProgram:
    return _export(Mlp(nn.Softmax(dim=0)), (torch.randn(4, 30),), ({0: _batch()},))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.lstm = nn.LSTM(11, 16, 2)
        self.dense = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.lstm(x)
        return torch.sigmoid(self.dense(steps[-1]))


def lstm() -> ExportedProgram:
    return _export(Lstm(), (torch.randn(7, 4, 11),), ({1: _batch()},))


class Encoder(nn.Module):
    """A small transformer: two symbols, a mask, and an answer for each row."""

    def __init__(self, masked: bool = True) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.masked = masked
        self.words = nn.Embedding(97, 24)
        self.norm = nn.LayerNorm(24)
        self.heads = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.norm(self.words(input_ids))
        q, k, v = (head(x) for head in self.heads)
        scores = q @ k.transpose(1, 2)
        if self.masked:
            scores = scores.masked_fill(attention_mask[:, None, :] == 0, -1e9)
        x = torch.softmax(scores, -1) @ v
        if self.masked:
            weight = attention_mask[:, :, None].to(x.dtype)
            pooled = (x * weight).sum(1) / weight.sum(1).clamp(min=1)
        else:
            pooled = x.mean(1)
        return {"embedding": pooled, "tokens": x}


def _encoder(masked: bool) -> ExportedProgram:
    seq = Dim("seq", min=2, max=64)
    shape = {0: _batch(64), 1: seq}
    ids = torch.randint(0, 97, (3, 9))
    return _export(Encoder(masked), (ids, torch.ones(3, 9, dtype=torch.int64)), (shape, shape))


def encoder() -> ExportedProgram:
    return _encoder(True)


def encoder_unmasked() -> ExportedProgram:
    return _encoder(False)


@dataclasses.dataclass
class Decision:
    score: torch.Tensor
    label: torch.Tensor
    flagged: torch.Tensor
    note: torch.Tensor | None = None


torch.export.register_dataclass(Decision, serialized_type_name="tests.models.Decision")


class Decider(nn.Module):
    """Nested inputs of several types, an output of three types in a dataclass."""

    def forward(self, ids: torch.Tensor, columns: dict[str, Any], flag: torch.Tensor, scale: int = 3) -> Decision:
        x = columns["age"] * scale + columns["more"][0] + columns["more"][1]
        x = torch.where(flag[:, None], x, -x) + ids[:, :1].to(x.dtype)
        return Decision(x.sum(1), x.argmax(1) + ids[:, 0], x.sum(1) > 0)


def decider() -> ExportedProgram:
    batch = _batch()
    columns = {"age": torch.randn(4, 5), "more": [torch.randn(4, 5), torch.randn(4, 5)]}
    args = (torch.randint(0, 9, (4, 2)), columns, torch.tensor([True, False, True, True]))
    shapes = ({0: batch}, {"age": {0: batch}, "more": [{0: batch}, {0: batch}]}, {0: batch})
    return _export(Decider(), args, shapes)


class Tuple(nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> tuple[Any, ...]:
        return x * k, None, (x + 1).to(torch.float64), 5, x


def scalar_and_tuple() -> ExportedProgram:
    return _export(Tuple(), (torch.randn(4, 3), 3), ({0: _batch()}, None))


class Reduced(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.mean() + y


def no_common_symbol() -> ExportedProgram:
    return _export(Reduced(), (torch.randn(4, 3), torch.randn(2)), ({0: _batch()}, None))


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2


def two_common_symbols() -> ExportedProgram:
    return _export(Square(), (torch.randn(4, 6),), ({0: _batch(), 1: Dim("width", min=2, max=50)},))


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x], 1)


def derived_dimension() -> ExportedProgram:
    return _export(Doubled(), (torch.randn(4, 6),), ({0: _batch(), 1: Dim("width", min=2, max=50)},))


class Ordinary(nn.Module):
    """What serves banks all day, none of which looks at other rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(10)
        self.table = nn.Embedding(50, 8)
        self.norm = nn.LayerNorm(20)
        self.batch_norm = nn.BatchNorm1d(20)
        self.dense = nn.Linear(20, 20)
        self.dropout = nn.Dropout(0.5)

    def forward(self, kind: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.table(kind), amounts], 1)
        x = self.dropout(nn.functional.gelu(self.dense(self.norm(self.batch_norm(x)))))
        x = torch.sort(x, 1).values * torch.softmax(x * 30, 1)
        return torch.log_softmax(torch.cumsum(x, 1) / 0.01, 1)


def ordinary() -> ExportedProgram:
    batch = _batch()
    return _export(Ordinary(), (torch.zeros(4, dtype=torch.int64), torch.randn(4, 12)), ({0: batch}, {0: batch}))


class BatchAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.dense = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.dense(x) @ x.transpose(0, 1) / 12, -1)
        return weights @ x


def batch_attention() -> ExportedProgram:
    return _export(BatchAttention(), (torch.randn(4, 12),), ({0: _batch()},))


class TrainingNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def training_batch_norm() -> ExportedProgram:
    return _export(TrainingNorm().train(), (torch.randn(4, 12),), ({0: Dim("batch", min=2, max=64)},), evaluate=False)


class Ranking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1).argsort().argsort()


def ranking() -> ExportedProgram:
    return _export(Ranking(), (torch.randn(4, 12),), ({0: _batch()},))


class Faint(nn.Module):
    """The mean of the batch, far below the rounding of the answer for ordinary neighbours."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1e-9 * x.mean(0, keepdim=True)


def faint() -> ExportedProgram:
    return _export(Faint(), (torch.randn(4, 12),), ({0: _batch()},))


class Divided(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids * 1.0 / ids.shape[0]


def divided_by_batch_size() -> ExportedProgram:
    return _export(Divided(), (torch.randint(0, 9, (4, 3)),), ({0: _batch()},))


class Quantised(nn.Module):
    """Scales by the largest number of the whole batch, as dynamic quantisation does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = x.abs().amax() / 127
        return torch.round(x / step) * step


def dynamic_quantisation() -> ExportedProgram:
    return _export(Quantised(), (torch.randn(4, 12),), ({0: _batch()},))


class Counter(nn.Module):
    """Remembers: the second answer holds what the first caller sent."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x[0])
        return x + self.total


def counter() -> ExportedProgram:
    return _export(Counter(), (torch.randn(4, 3),), ({0: _batch()},))


class WritesInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


def writes_input() -> ExportedProgram:
    return _export(WritesInput(), (torch.randn(4, 3),), ({0: _batch()},))


class Random(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


def random_dropout() -> ExportedProgram:
    return _export(Random(), (torch.randn(4, 30),), ({0: _batch()},))


class Erf(nn.Module):
    """Fused kernels and eager ones round it differently in the last place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.sin(x * 3) * 4) / (1 + torch.tanh(x)) + torch.log1p(x * x)


def rounding() -> ExportedProgram:
    return _export(Erf(), (torch.randn(4, 30),), ({0: _batch()},))


class Fft(nn.Module):
    """An operator for which Inductor writes no kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x, dim=1).abs() + torch.special.bessel_j0(x[:, :9])


def fft() -> ExportedProgram:
    return _export(Fft(), (torch.randn(4, 16),), ({0: _batch()},))


class Complex(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x, dim=1)


def complex_output() -> ExportedProgram:
    return _export(Complex(), (torch.randn(4, 16),), ({0: _batch()},))


class Large(nn.Module):
    """32 MiB of weights, too many to hide in the noise of a process's memory."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.dense = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense[1](torch.relu(self.dense[0](x)))


def large() -> ExportedProgram:
    return _export(Large(), (torch.randn(4, 2048),), ({0: _batch()},))


class Chosen(nn.Module):
    """As many answers as there are positive numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


def data_dependent() -> ExportedProgram:
    return _export(Chosen(), (torch.randn(4, 16),), ({0: _batch()},))
