"""The messages of `bazel query --output=streamed_proto`, as far as plumb reads them.

The numbers are those of Bazel 7's src/main/protobuf/build.proto. Two readings of one stream:
`Target` with everything, and `Outline`, which leaves the attributes unread and so costs little.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_PACKAGE = "plumb"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "int32": _FIELD.TYPE_INT32,
    "bool": _FIELD.TYPE_BOOL,
}
_KINDS = (
    "INTEGER STRING LABEL OUTPUT STRING_LIST LABEL_LIST OUTPUT_LIST DISTRIBUTION_SET LICENSE "
    "STRING_DICT FILESET_ENTRY_LIST LABEL_LIST_DICT STRING_LIST_DICT BOOLEAN TRISTATE INTEGER_LIST "
    "STRING_DICT_UNARY UNKNOWN LABEL_DICT_UNARY SELECTOR_LIST LABEL_KEYED_STRING_DICT"
)
_ENUMS = {
    "Kind": (
        1,
        "RULE SOURCE_FILE GENERATED_FILE PACKAGE_GROUP ENVIRONMENT_GROUP",
    ),
    "Type": (1, _KINDS),
    "Tristate": (0, "NO YES AUTO"),
}
# A line is a field: its number, its type (with * for a list of it) and its name.
_MESSAGES = {
    "License": "1 string* license_type, 2 string* exception",
    "Pair": "1 string key, 2 string value",
    "Lists": "1 string key, 2 string* value",
    "Entry": (
        "1 string label, 16 bool is_default_value, 2 int32 int_value, 3 string string_value, "
        "4 bool boolean_value, 5 Tristate tristate_value, 6 string* string_list_value, "
        "7 License license, 8 Pair* string_dict_value, 10 Lists* label_list_dict_value, "
        "11 Lists* string_list_dict_value, 13 int32* int_list_value, "
        "15 Pair* label_dict_unary_value, 17 Pair* label_keyed_string_dict_value"
    ),
    "Selector": "1 Entry* entries, 2 bool has_default_value, 3 string no_match_error",
    "SelectorList": "1 Type type, 2 Selector* elements",
    "Attribute": (
        "1 string name, 2 Type type, 13 bool explicitly_specified, 20 bool nodep, "
        "3 int32 int_value, 5 string string_value, 14 bool boolean_value, "
        "15 Tristate tristate_value, 6 string* string_list_value, 7 License license, "
        "8 Pair* string_dict_value, 10 Lists* label_list_dict_value, "
        "11 Lists* string_list_dict_value, 17 int32* int_list_value, "
        "19 Pair* label_dict_unary_value, 22 Pair* label_keyed_string_dict_value, "
        "21 SelectorList selector_list"
    ),
    "Rule": (
        "1 string name, 2 string rule_class, 4 Attribute* attribute, 5 string* rule_input, "
        "6 string* rule_output, 7 string* default_setting, 14 string* definition_stack"
    ),
    "RuleOutline": (
        "1 string name, 2 string rule_class, 5 string* rule_input, 14 string* definition_stack"
    ),
    "SourceFile": (
        "1 string name, 3 string* subinclude, 5 string* visibility_label, "
        "9 bool package_contains_errors"
    ),
    "GeneratedFile": "1 string name, 2 string generating_rule",
    "PackageGroup": (
        "1 string name, 2 string* contained_package, 3 string* included_package_group"
    ),
    "EnvironmentGroup": "1 string name, 2 string* environment, 3 string* default",
    "Target": (
        "1 Kind type, 2 Rule rule, 3 SourceFile source_file, 4 GeneratedFile generated_file, "
        "5 PackageGroup package_group, 6 EnvironmentGroup environment_group"
    ),
    "Outline": (
        "1 int32 type, 2 RuleOutline rule, 3 SourceFile source_file, "
        "4 GeneratedFile generated_file, 5 PackageGroup package_group, "
        "6 EnvironmentGroup environment_group"
    ),
}


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="plumb.proto", package=_PACKAGE)
    for name, (first, values) in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values.split(), first):
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            _add_field(message, *field.split())
    return file


def _add_field(message: Any, number: str, kind: str, name: str) -> None:
    element = kind.removesuffix("*")
    field = message.field.add(name=name, number=int(number))
    field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
    if element in _SCALARS:
        field.type = _SCALARS[element]
    else:
        field.type = _FIELD.TYPE_ENUM if element in _ENUMS else _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{element}"


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Target, Outline = _message("Target"), _message("Outline")
# Types of an attribute by name.
Type = EnumTypeWrapper(_pool.FindEnumTypeByName(f"{_PACKAGE}.Type"))
# Kinds of a target.
RULE, SOURCE_FILE, GENERATED_FILE, PACKAGE_GROUP, ENVIRONMENT_GROUP = range(1, 6)
