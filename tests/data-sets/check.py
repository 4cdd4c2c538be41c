#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
"""Reads Parquet tables of one capture, or of many, with DuckDB and pyarrow; checks that they agree.

    check.py FOLDER [--expect TABLE=ROWS ...]

FOLDER holds methods, threads, calls, blocks and perhaps events, as `Partition::path` names them, or
`Partition::path_in_fleet`.
Needs the packages duckdb and pyarrow. Exit status 0 if all is well, 1 if a check fails.
"""

import argparse
import json
import pathlib
import sys

import duckdb
import pyarrow.dataset
import pyarrow.parquet

TABLES = ("methods", "threads", "calls", "blocks", "events")
HOTTEST = """
    SELECT t.name, m.class || '.' || m.name AS method, sum(b.bytecodes) AS n
    FROM blocks b JOIN methods m USING ({capture}method) JOIN threads t USING ({capture}thread)
    GROUP BY t.name, m.class, m.name ORDER BY t.name, n DESC, 2
"""
# Bytecodes of each thread by the table of threads, and by another one.
SUMS = """
    SELECT t.thread, any_value(t.bytecodes), coalesce(sum(o.n), 0)
    FROM threads t LEFT JOIN ({other}) o USING ({capture}thread) GROUP BY {capture}t.thread
"""

failures = []


def check(holds, what):
    if not holds:
        failures.append(what)


def one(db, query):
    return db.execute(query).fetchall()[0][0]


def files(folder, table):
    return sorted((folder / table).rglob("*.parquet"))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--expect", action="append", default=[], metavar="TABLE=ROWS")
    options = arguments.parse_args()
    folder = options.folder
    db = duckdb.connect()
    present = [t for t in TABLES if files(folder, t)]
    for table in ("methods", "threads"):
        check(table in present, f"no table {table}")
    if failures:
        return report({})

    rows = {}
    for table in present:
        pattern = str(folder / table / "**" / "*.parquet").replace("'", "''")
        # The partition values are texts, even if one looks like a date or a number.
        db.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{pattern}', hive_partitioning = true, "
            "hive_types_autocast = false)"
        )
        rows[table] = one(db, f"SELECT count(*) FROM {table}")
        partitions = pyarrow.dataset.partitioning(flavor="hive")
        data = pyarrow.dataset.dataset(folder / table, format="parquet", partitioning=partitions)
        check(data.count_rows() == rows[table], f"{table}: DuckDB and pyarrow count other rows")
        for file in files(folder, table):
            metadata = pyarrow.parquet.read_metadata(file).metadata or {}
            check(metadata.get(b"jportal.table") == table.encode(), f"{file}: metadata names no table")
            if table in ("calls", "blocks"):
                check(metadata.get(b"jportal.exact") in (b"true", b"false"), f"{file}: no exactness")
                json.loads(metadata.get(b"jportal.inexact", b"no JSON"))

    for pair in options.expect:
        table, _, wanted = pair.partition("=")
        check(rows.get(table) == int(wanted), f"{table}: {rows.get(table)} rows, not {wanted}")

    columns = [c[0] for c in db.execute("DESCRIBE threads").fetchall()]
    capture = "capture, " if "capture" in columns else ""
    others = {
        "blocks": "SELECT *, bytecodes AS n FROM blocks",
        "events": "SELECT *, len AS n FROM events WHERE kind = 'bytecodes'",
    }
    for table, other in others.items():
        if table in present:
            sums = db.execute(SUMS.format(other=other, capture=capture)).fetchall()
            check(len(sums) == rows["threads"], "threads are not unique")
            for thread, total, summed in sums:
                check(total == summed, f"thread {thread}: {total} bytecodes, {summed} in {table}")
    if "events" in present:
        calls = one(db, "SELECT count(*) FROM events WHERE kind = 'enter' AND detail IN ('call', 'upcall')")
        counted = one(db, 'SELECT coalesce(sum("count"), 0) FROM calls') if "calls" in present else 0
        check(calls == counted, f"{calls} calls in events, {counted} in calls")
    if "blocks" in present:
        for name, method, n in db.execute(HOTTEST.format(capture=capture)).fetchall()[:10]:
            print(f"{n:>12}  {name}  {method}")
    return report(rows)


def report(rows):
    for table, n in rows.items():
        print(f"{table}: {n} rows")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
