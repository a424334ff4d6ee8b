"""The plain values that flow through the explorer.

`values.py`: Event, Artifact, Link, Failure, Table, and their JSON; `stage.py`: Stage, a frozen value; `deferred.py`: fields
that are made when one is first read; `schema.py`: the JSON Schema of records; `context.py`: where a compile is; `records.py`:
frozen dataclasses that check what they are made of and are mappings too; `shared.py`: the records that several stages share,
`events.py`: those of events that no stage shows.
"""
