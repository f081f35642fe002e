"""An exported program made flat: named tensors in, named tensors out, and no state between calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from belfry_compiler.archive import field_names
from belfry_compiler.errors import CompilerError


@dataclass(frozen=True)
class Leaf:
    """One tensor of the signature: its name, what the program knows of it, and an example where there is one."""

    name: str
    value: torch.Tensor  # a fake tensor: dtype, and a shape in symbols
    example: torch.Tensor | None = None


@dataclass
class Program:
    """What every target compiles. 'module' takes the inputs' tensors in order and returns the outputs' in order."""

    module: torch.fx.GraphModule
    inputs: list[Leaf]
    outputs: list[Leaf]
    ranges: dict[Any, Any]  # sympy symbol -> torch's ValueRanges
    notes: list[str] = field(default_factory=list)

    def run(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """In eager mode, on copies: the reference for what is compiled."""
        with torch.no_grad():
            return [value.detach() for value in self.module(*[tensor.clone() for tensor in tensors])]


def make_program(exported: ExportedProgram) -> Program:
    notes: list[str] = []
    _refuse_foreign_devices(exported)
    exported = _without_state(exported, notes)
    module = exported.module(check_guards=False)
    module.graph.set_codegen(torch.fx.graph.CodeGen())  # flat arguments, a flat tuple of results
    inputs = _inputs(exported, module, notes)
    outputs = _outputs(exported, module, notes)
    module.graph.eliminate_dead_code()
    # A new module, because the exported one checks its arguments against the nested signature.
    module = torch.fx.GraphModule(module, module.graph)
    return Program(module, inputs, outputs, dict(exported.range_constraints), notes)


def _refuse_foreign_devices(exported: ExportedProgram) -> None:
    tensors = [*exported.state_dict.items(), *exported.constants.items()]
    for name, tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type not in ("cpu", "meta"):
            text = f"the program keeps {name} on device {tensor.device}: export it on the CPU"
            raise CompilerError("uncompilable", text)


def _without_state(exported: ExportedProgram, notes: list[str]) -> ExportedProgram:
    """A served model forgets: nothing that one call writes may be seen by the next, which is another client's."""
    if not _may_write(exported):
        return exported
    functional = exported.run_decompositions({})
    signature = functional.graph_signature
    if signature.user_inputs_to_mutate:
        names = ", ".join(sorted(signature.user_inputs_to_mutate.values()))
        raise CompilerError("uncompilable", f"forward writes into its own input ({names}): return a new tensor instead")
    written = sorted({*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()})
    if not written:
        return functional
    notes.append(
        f"the program updates state in every call ({', '.join(written)}); "
        "served calls all start from the saved state, the updates are dropped"
    )
    return functional


def _may_write(exported: ExportedProgram) -> bool:
    signature = exported.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or signature.parameters_to_mutate:
        return True
    for module in exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and _writes(node):
                return True
    return False


def _writes(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    if schema.is_mutable:
        return True
    # batch_norm and its kin write their running statistics although their schemas do not say so.
    return "batch_norm" in schema.name or "instance_norm" in schema.name


def _inputs(exported: ExportedProgram, module: torch.fx.GraphModule, notes: list[str]) -> list[Leaf]:
    specs = [spec for spec in exported.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    names = _input_names(exported, len(specs))
    examples = _examples(exported, len(specs))
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    leaves: list[Leaf] = []
    for spec, name, example, node in zip(specs, names, examples, placeholders, strict=True):
        if isinstance(spec.arg, ConstantArgument):
            notes.append(f"input {name} is baked in as {spec.arg.value!r}, the value it was exported with")
            node.replace_all_uses_with(None)  # type: ignore[arg-type]
            module.graph.erase_node(node)
            continue
        value = values.get(spec.arg.name)
        if not isinstance(spec.arg, TensorArgument) or not isinstance(value, torch.Tensor):
            text = f"input {name} is a {type(value).__name__} that varies from call to call, expected a tensor"
            raise CompilerError("uncompilable", text)
        if value.layout != torch.strided:
            raise CompilerError("uncompilable", f"input {name} has layout {value.layout}, expected a dense tensor")
        leaves.append(Leaf(name, value, example if isinstance(example, torch.Tensor) else None))
    if not leaves:
        raise CompilerError("uncompilable", "forward takes no tensor, so there is nothing that a request could send")
    return leaves


def _outputs(exported: ExportedProgram, module: torch.fx.GraphModule, notes: list[str]) -> list[Leaf]:
    specs = [spec for spec in exported.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    names = _output_names(exported, len(specs))
    result = next(node for node in module.graph.nodes if node.op == "output")
    kept: list[torch.fx.Node] = []
    leaves: list[Leaf] = []
    for spec, name, node in zip(specs, names, result.args[0], strict=True):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            told = repr(spec.arg.value) if isinstance(spec.arg, ConstantArgument) else f"a {type(value).__name__}"
            notes.append(f"output {name} is left out: it is {told}, not a tensor")
            continue
        kept.append(node)
        leaves.append(Leaf(name, value))
    if not leaves:
        raise CompilerError("uncompilable", "forward returns no tensor")
    result.args = (tuple(kept),)
    _drop_state_updates(module)
    return leaves


def _drop_state_updates(module: torch.fx.GraphModule) -> None:
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.aten.copy_.default:
            continue
        written = node.args[0]
        if isinstance(written, torch.fx.Node) and written.op == "get_attr":
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)


def _input_names(exported: ExportedProgram, count: int) -> list[str]:
    """Names of forward's parameters; what is nested in one is joined to it by dots."""
    signature = exported.module_call_graph[0].signature
    if signature is None:
        raise CompilerError("bad_model", "the program does not tell its signature")
    parameters = signature.forward_arg_names
    names: list[str] = []
    for path, _ in _leaf_paths(signature.in_spec):
        where, position, *rest = path  # (args or kwargs), which, and what is inside
        if where == 0:
            head = parameters[position] if parameters and position < len(parameters) else f"input_{position}"
        else:
            head = str(position)
        names.append(".".join([head, *map(str, rest)]))
    return _checked_names(names, count, "inputs")


def _output_names(exported: ExportedProgram, count: int) -> list[str]:
    """Keys of a dict, fields of a dataclass; `output` for one tensor; `output_0`, `output_1`, … for a tuple."""
    signature = exported.module_call_graph[0].signature
    names: list[str] = []
    for path, _ in _leaf_paths(signature.out_spec):
        if not path:
            names.append("output")
            continue
        head, *rest = path
        names.append(".".join([f"output_{head}" if isinstance(head, int) else str(head), *map(str, rest)]))
    return _checked_names(names, count, "outputs")


def _checked_names(names: list[str], count: int, what: str) -> list[str]:
    if len(names) != count:
        text = f"the program's signature names {len(names)} {what}, but its graph has {count}"
        raise CompilerError("bad_model", text)
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise CompilerError("uncompilable", f"two {what} are called {', '.join(twice)}")
    return names


def _leaf_paths(spec: pytree.TreeSpec) -> list[tuple[tuple[Any, ...], pytree.TreeSpec]]:
    """The way to every leaf: an index in a sequence, a key of a dict, a field of a dataclass."""
    if spec.is_leaf():
        return [((), spec)]
    keys = _child_keys(spec)
    found = []
    for key, child in zip(keys, spec.children(), strict=True):
        found.extend(((key, *path), leaf) for path, leaf in _leaf_paths(child))
    return found


def _child_keys(spec: pytree.TreeSpec) -> list[Any]:
    count = len(spec.children())
    if spec.type in (tuple, list):
        return list(range(count))
    context = spec.context
    if isinstance(context, list | tuple) and len(context) == count and all(isinstance(k, str | int) for k in context):
        return list(context)  # dict, OrderedDict
    fields = field_names(context)
    if len(fields) == count:
        return fields
    fields = list(getattr(context, "_fields", ()) or getattr(spec.type, "_fields", ()))  # namedtuple
    return fields if len(fields) == count else list(range(count))


def _examples(exported: ExportedProgram, count: int) -> list[Any]:
    """The inputs that the program was exported with, flat; Nones where the file does not have them."""
    if exported.example_inputs is None:
        return [None] * count
    args, kwargs = exported.example_inputs
    flat = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
    return flat if len(flat) == count else [None] * count
