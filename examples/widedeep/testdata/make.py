"""Writes clicks.parquet of clicks.txt, the 300 rows of drawClicks in main_test.go. It was written with pyarrow 26.0.1."""
import sys

import pyarrow as pa
import pyarrow.parquet as pq

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
columns = {"label": pa.array([int(r[0]) for r in rows], pa.int8())}
for i in range(13):
    columns["I%d" % (i + 1)] = pa.array([int(r[1 + i]) if r[1 + i] else None for r in rows], pa.int32())
for i in range(26):
    columns["C%d" % (i + 1)] = pa.array([r[14 + i] or None for r in rows], pa.string())
pq.write_table(pa.table(columns), sys.argv[2], compression="zstd", store_schema=False, write_statistics=False)
