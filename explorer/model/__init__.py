"""The plain values that flow through the explorer.

`values.py`: Event, Artifact, Link, Failure, Rows, and their JSON; `stage.py`: Stage, a frozen value; `deferred.py`: fields
that are made when one is first read; `unread.py`: facts that are made when a recording is first read; `schema.py`: the JSON
Schema of records; `context.py`: where a compile is; `records.py`: frozen dataclasses that check what they are made of and are
mappings too; `events.py` and `artifacts.py`: the record of each kind of event and of each stage's artifacts, `rows.py`: those
inside them; `upgrades.py`: what older files say differently.
"""
