"""Writes the files of this folder. They were written by pyarrow 26.0.1."""
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

rows = 300
table = pa.table({
    "label": pa.array([i % 2 for i in range(rows)], pa.int8()),
    "count": pa.array([None if i % 7 == 0 else i * i - 5000 for i in range(rows)], pa.int64()),
    "rate": pa.array([None if i % 5 == 0 else i / 8 for i in range(rows)], pa.float64()),
    "half": pa.array([i / 4 for i in range(rows)], pa.float16()),
    "shop": pa.array([None if i % 11 == 0 else "shop %d" % (i % 13) for i in range(rows)], pa.string()).dictionary_encode(),
    "name": pa.array(["name %04d" % i for i in range(rows)], pa.large_string()),
    "open": pa.array([None if i % 3 == 0 else i % 4 == 0 for i in range(rows)], pa.bool_()),
    "price": pa.array([Decimal(i - 150) / 100 for i in range(rows)], pa.decimal128(30, 2)),
    "day": pa.array(range(rows), pa.date32()),
    "big": pa.array([2**63 - 1 - i for i in range(rows)], pa.uint64()),
    "tags": pa.array([["a"] * (i % 3) for i in range(rows)], pa.list_(pa.string())),
})
for name, options in {
    "snappy": dict(compression="snappy"),
    "zstd2": dict(compression="zstd", data_page_version="2.0", write_page_checksum=True, data_page_size=500, row_group_size=128),
    "delta": dict(compression="brotli", use_dictionary=False, row_group_size=128, data_page_version="2.0",
                  column_encoding={"count": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "rate": "BYTE_STREAM_SPLIT", "open": "RLE", "half": "BYTE_STREAM_SPLIT"}),
    "lz4": dict(compression="lz4", use_dictionary=["shop"], write_page_index=True, row_group_size=200),
}.items():
    pq.write_table(table, "pyarrow-%s.parquet" % name, store_schema=False, **options)

# As Hugging Face's datasets write images.
image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
images = pa.table({
    "image": pa.array([None if i == 3 else {"bytes": b"image %d" % i, "path": None if i % 2 else "%d.png" % i} for i in range(10)], image),
    "label": pa.array([None if i == 4 else i % 3 for i in range(10)], pa.int64()),
})
features = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}}}}
pq.write_table(images.replace_schema_metadata({"huggingface": json.dumps(features)}), "images.parquet", row_group_size=4)
