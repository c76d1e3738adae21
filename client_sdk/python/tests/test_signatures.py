"""What inspect, help() and editors show of the native methods is what the types say."""

import ast
import inspect
import pathlib

import moonpool
import pytest


def typed_methods() -> dict[str, ast.arguments]:
    """Arguments of moonpool.Client's public methods by name, from _native.pyi."""
    types = pathlib.Path(moonpool.__file__).with_name("_native.pyi").read_text()
    [client] = [node for node in ast.parse(types).body
                if isinstance(node, ast.ClassDef) and node.name == "Client"]
    return {node.name: node.args for node in client.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


def test_every_method_has_its_types():
    public = {name for name, value in inspect.getmembers(moonpool.Client, callable)
              if not name.startswith("_")}
    assert public == set(typed_methods())


@pytest.mark.parametrize("name", typed_methods())
def test_signatures_are_those_of_the_types(name):
    typed = typed_methods()[name]
    shown = inspect.signature(getattr(moonpool.Client, name)).parameters.values()
    of_kind = {kind: [p.name for p in shown if p.kind is kind] for kind in inspect._ParameterKind}
    by_position = (of_kind[inspect.Parameter.POSITIONAL_ONLY]
                   + of_kind[inspect.Parameter.POSITIONAL_OR_KEYWORD])
    assert by_position == [argument.arg for argument in typed.args]
    assert of_kind[inspect.Parameter.KEYWORD_ONLY] == [a.arg for a in typed.kwonlyargs]
    given = [p.default for p in shown if p.default is not inspect.Parameter.empty]
    assert given == [ast.literal_eval(value) for value in typed.defaults + typed.kw_defaults]


@pytest.mark.parametrize("name", typed_methods())
def test_help_explains_every_option_and_what_comes_back(name):
    method = getattr(moonpool.Client, name)
    shown = inspect.signature(method).parameters.values()
    options = [p.name for p in shown if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert [option for option in options if f"`{option}`" not in method.__doc__] == []
    if name.endswith("_many"):
        assert "Returns a list, one entry a key: " in method.__doc__
