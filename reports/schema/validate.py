#!/usr/bin/env python3
"""Holds files against a JSON Schema of this folder.

    validate.py SCHEMA FILE...        a FILE that ends in .jsonl has one document a line

Prints the first thing that is wrong with each file, and where. Status: 0 all valid, 1 some are not,
2 a file that cannot be read, 4 python3-jsonschema is not installed.
"""
import json
import pathlib
import sys
import warnings

try:
    import jsonschema
except ImportError:
    print("validate.py: python3-jsonschema is not installed")
    sys.exit(4)


def validator_of(path):
    """Schemas name each other by their file names."""
    with warnings.catch_warnings():  # newer versions advise another resolver, which Debian 12 lacks
        warnings.simplefilter("ignore", DeprecationWarning)
        schema = json.loads(path.read_text())
        others = [json.loads(p.read_text()) for p in path.parent.glob("*.schema.json")]
        resolver = jsonschema.RefResolver(
            schema["$id"], schema, store={other["$id"]: other for other in others})
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, resolver=resolver)


def first_error(validator, documents):
    for number, document in enumerate(documents, 1):
        for error in validator.iter_errors(document):
            message = error.message if len(error.message) < 300 else error.message[:300] + "..."
            where = error.json_path + (f" of document {number}" if len(documents) > 1 else "")
            return f"{where}: {message}"
    return None if documents else "holds no document"


def main(schema, *files):
    validator = validator_of(pathlib.Path(schema))
    status = 0
    for file in files:
        try:
            text = pathlib.Path(file).read_text()
            texts = text.splitlines() if file.endswith(".jsonl") else [text]
            error = first_error(validator, [json.loads(each) for each in texts])
        except (OSError, ValueError) as unreadable:
            print(f"{file}: {unreadable}")
            return 2
        if error:
            print(f"{file}: {error}")
            status = 1
    return status


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__.strip())
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
