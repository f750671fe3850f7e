"""What a request says about the form of its answer, in each of the ways that clients know.

OpenAI's `response_format`, llama.cpp's `json_schema` and `grammar`, vLLM's `structured_outputs`. All of
them are enforced, `strict` or not: a schema that is only a wish would be one more way to get a broken
answer. Two at once are refused, since one of them would be lost.

Whether a schema or a grammar can be kept is known when it is compiled for a model; here it is only read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintSpec,
    Grammar,
    JsonSchema,
    Regex,
    Tag,
    TaggedText,
)
from inference.domain.errors import InvalidRequest
from inference.openai.fields import Fields, kind_of
from inference.openai.json_body import parse_object

MAX_FORMAT_NAME_CHARS = 64  # OpenAI's
MAX_DESCRIPTION_CHARS = 16 * 1024
MAX_TEXT_CHARS = 1024 * 1024
MAX_OPTIONS = 65_536
MAX_TAGS = 512
TEXT_FORMAT_TYPES = ("text", "json_object", "json_schema")
FORMAT_FIELDS = ("response_format", "json_schema", "grammar", "structured_outputs")
FORMAT_TYPES = ("text", "json_object", "json_schema", "structural_tag")

_FORMAT_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
# A rule in GBNF (and its kin, EBNF); Lark's have a colon alone.
_GBNF_RULE = re.compile(r"^[ \t]*[A-Za-z0-9_-]+[ \t]*::=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What the answer has to be, and the field that says so, for whoever has to refuse it later."""

    spec: ConstraintSpec
    param: str


def read_output_format(fields: Fields) -> OutputFormat | None:
    """None where nothing is asked of the answer. Raises InvalidRequest naming the field."""
    found = [
        one
        for one in (
            _response_format(fields),
            read_json_schema(fields),
            _grammar(fields),
            _structured_outputs(fields),
        )
        if one is not None
    ]
    if len(found) > 1:
        first, second = found[0].param.split(".")[0], found[1].param.split(".")[0]
        raise InvalidRequest(f"Invalid '{second}': it cannot be used together with '{first}'.", param=second)
    return found[0] if found else None


def _response_format(fields: Fields) -> OutputFormat | None:
    given = fields.mapping("response_format")
    if given is None:
        return None
    inner = Fields(given, f"{fields.param('response_format')}.")
    kind = inner.choice("type", FORMAT_TYPES)
    if kind is None:
        raise inner.missing("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat(AnyJson(), fields.param("response_format"))
    if kind == "structural_tag":
        return OutputFormat(_structural_tag(inner), fields.param("response_format"))
    described = inner.mapping("json_schema")
    if described is None:
        raise inner.missing("json_schema")
    return _named_schema(Fields(described, f"{inner.param('json_schema')}."))


def read_text_format(fields: Fields, name: str = "format") -> OutputFormat | None:
    """The Responses API's form of `response_format`, in which the schema's name and the schema lie beside
    the type."""
    given = fields.mapping(name)
    if given is None:
        return None
    inner = Fields(given, f"{fields.param(name)}.")
    kind = inner.choice("type", TEXT_FORMAT_TYPES)
    if kind is None:
        raise inner.missing("type")
    if kind == "text":
        return None
    return OutputFormat(AnyJson(), fields.param(name)) if kind == "json_object" else _named_schema(inner)


def _named_schema(schema_fields: Fields) -> OutputFormat:
    """`name` and `schema`, which must be there, and what else OpenAI has beside them."""
    name = schema_fields.string("name", max_chars=MAX_FORMAT_NAME_CHARS)
    if name is None:
        raise schema_fields.missing("name")
    if not _FORMAT_NAME.fullmatch(name):
        raise schema_fields.fail("name", "it may have letters, digits, '_' and '-' only")
    schema_fields.string("description", max_chars=MAX_DESCRIPTION_CHARS)
    schema_fields.boolean("strict")
    value = schema_fields.take("schema")
    if value is None:
        raise schema_fields.missing("schema")
    return OutputFormat(_schema(schema_fields, "schema", value), schema_fields.param("schema"))


def read_json_schema(fields: Fields) -> OutputFormat | None:
    """llama.cpp's, bare; {} is any value."""
    value = fields.take("json_schema")
    if value is None:
        return None
    return OutputFormat(_schema(fields, "json_schema", value), fields.param("json_schema"))


def _schema(fields: Fields, name: str, value: object) -> JsonSchema:
    if not isinstance(value, dict | bool):
        raise fields.wrong_kind(name, "a JSON schema", value)
    return JsonSchema(value)


def _grammar(fields: Fields) -> OutputFormat | None:
    """llama.cpp's: GBNF. An empty one is none."""
    text = fields.string("grammar", max_chars=MAX_TEXT_CHARS)
    if not text:
        return None
    return OutputFormat(Grammar(text, is_gbnf=True), fields.param("grammar"))


def _structured_outputs(fields: Fields) -> OutputFormat | None:
    """vLLM's: exactly one of its kinds."""
    given = fields.mapping("structured_outputs")
    if given is None:
        return None
    inner = Fields(given, f"{fields.param('structured_outputs')}.")
    readers = {
        "json": _vllm_json,
        "json_object": _vllm_json_object,
        "regex": _vllm_regex,
        "choice": _vllm_choice,
        "grammar": _vllm_grammar,
        "structural_tag": _vllm_structural_tag,
    }
    found = []
    for name, read in readers.items():
        spec = read(inner, name)
        if spec is not None:
            found.append(OutputFormat(spec, inner.param(name)))
    # Both say what is so here anyway.
    inner.boolean("disable_any_whitespace")
    inner.boolean("disable_fallback")
    for name in inner.unknown():
        raise inner.fail(name[:MAX_FORMAT_NAME_CHARS], "there is no such member")
    if len(found) != 1:
        names = ", ".join(f"'{name}'" for name in readers)
        raise fields.fail("structured_outputs", f"it must have exactly one of {names}")
    return found[0]


def _vllm_json(fields: Fields, name: str) -> ConstraintSpec | None:
    """A schema, or the text of one."""
    value = fields.take(name)
    if value is None:
        return None
    if isinstance(value, str):
        return _schema(fields, name, _parsed(fields, name, value))
    return _schema(fields, name, value)


def _parsed(fields: Fields, name: str, text: str) -> dict[str, object]:
    try:
        return parse_object(text.encode("utf-8", "replace"))
    except InvalidRequest:
        raise fields.fail(name, "it is not the text of a JSON object") from None


def _vllm_json_object(fields: Fields, name: str) -> ConstraintSpec | None:
    return AnyJson() if fields.boolean(name) else None


def _vllm_regex(fields: Fields, name: str) -> ConstraintSpec | None:
    pattern = fields.string(name, max_chars=MAX_TEXT_CHARS)
    return None if pattern is None else Regex(pattern)


def _vllm_choice(fields: Fields, name: str) -> ConstraintSpec | None:
    options = fields.array(name)
    if options is None:
        return None
    if not 0 < len(options) <= MAX_OPTIONS:
        raise fields.fail(name, f"it must have 1 to {MAX_OPTIONS} options")
    texts = []
    for option in options:
        if not isinstance(option, str):
            raise fields.fail(name, f"expected an array of strings, but got {kind_of(option)} in it")
        texts.append(option)
    return Choice(tuple(dict.fromkeys(texts)))


def _vllm_grammar(fields: Fields, name: str) -> ConstraintSpec | None:
    text = fields.string(name, max_chars=MAX_TEXT_CHARS)
    return None if text is None else Grammar(text, is_gbnf=_GBNF_RULE.search(text) is not None)


def _vllm_structural_tag(fields: Fields, name: str) -> ConstraintSpec | None:
    """The text of a structural tag, or the object itself."""
    value = fields.take(name)
    if value is None:
        return None
    if isinstance(value, str):
        value = _parsed(fields, name, value)
    if not isinstance(value, dict):
        raise fields.wrong_kind(name, "a structural tag", value)
    inner = Fields(value, f"{fields.param(name)}.")
    kind = inner.choice("type", ("structural_tag",))
    if kind is None and "structures" not in value:
        raise inner.missing("type")
    return _structural_tag(inner)


def _structural_tag(fields: Fields) -> TaggedText:
    """Free text with tags: `structures` (begin, schema, end) and `triggers`, as vLLM has had them first, or
    a `format` of type triggered_tags or tags_with_separator."""
    described = fields.mapping("format")
    if described is not None:
        return _tag_format(Fields(described, f"{fields.param('format')}."))
    tags = [
        Tag(begin, _schema(one, "schema", _required(one, "schema")), end)
        for one, begin, end in _tags(fields, "structures")
    ]
    return _checked(fields, TaggedText(tuple(tags), _triggers(fields)))


def _tag_format(fields: Fields) -> TaggedText:
    kind = fields.choice("type", ("triggered_tags", "tags_with_separator"))
    if kind is None:
        raise fields.missing("type")
    tags = []
    for one, begin, end in _tags(fields, "tags"):
        content = one.mapping("content")
        if content is None:
            raise one.missing("content")
        tags.append(Tag(begin, _content(Fields(content, f"{one.param('content')}.")), end))
    at_least_one = fields.boolean("at_least_one") or False
    stop_after_first = fields.boolean("stop_after_first") or False
    shared: dict[str, Any] = {
        "tags": tuple(tags),
        "min_tags": int(at_least_one),
        "max_tags": 1 if stop_after_first else None,
    }
    if kind == "tags_with_separator":
        separator = fields.string("separator", max_chars=MAX_DESCRIPTION_CHARS) or ""
        return TaggedText(triggers=(), has_free_text=False, separator=separator, **shared)
    whole = TaggedText(triggers=_triggers(fields), has_later_text=not stop_after_first, **shared)
    return _checked(fields, whole)


def _content(fields: Fields) -> ConstraintSpec:
    kind = fields.choice("type", ("json_schema", "regex", "any_text", "grammar"))
    if kind == "json_schema":
        return _schema(fields, "json_schema", _required(fields, "json_schema"))
    if kind == "any_text":
        return Regex("(?s:.*)")
    if kind is None:
        raise fields.missing("type")
    name = "pattern" if kind == "regex" else "grammar"
    text = fields.string(name, max_chars=MAX_TEXT_CHARS)
    if text is None:
        raise fields.missing(name)
    return Regex(text) if kind == "regex" else Grammar(text)


def _tags(fields: Fields, name: str) -> list[tuple[Fields, str, str]]:
    """The members of a list of tags, each with its begin and end."""
    given = fields.array(name)
    if given is None:
        raise fields.missing(name)
    if not 0 < len(given) <= MAX_TAGS:
        raise fields.fail(name, f"it must have 1 to {MAX_TAGS} tags")
    tags = []
    for index, value in enumerate(given):
        if not isinstance(value, dict):
            raise fields.wrong_kind(name, "an array of objects", value)
        one = Fields(value, f"{fields.param(name)}[{index}].")
        begin = one.string("begin", max_chars=MAX_DESCRIPTION_CHARS)
        if not begin:
            raise one.missing("begin")
        tags.append((one, begin, one.string("end", max_chars=MAX_DESCRIPTION_CHARS) or ""))
    return tags


def _triggers(fields: Fields) -> tuple[str, ...]:
    given = fields.array("triggers")
    if given is None:
        raise fields.missing("triggers")
    triggers = [trigger for trigger in given if isinstance(trigger, str) and trigger]
    if not triggers or len(triggers) != len(given) or len(given) > MAX_TAGS:
        raise fields.fail("triggers", "expected an array of strings that are not empty")
    return tuple(dict.fromkeys(triggers))


def _checked(fields: Fields, tagged: TaggedText) -> TaggedText:
    for tag in tagged.tags:
        if not tag.begin.startswith(tagged.triggers):
            raise fields.fail("triggers", "each tag must begin with one of them")
    return tagged


def _required(fields: Fields, name: str) -> object:
    value = fields.take(name)
    if value is None:
        raise fields.missing(name)
    return value
