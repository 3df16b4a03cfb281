//go:build !nobuckets

package main

// --checkpoint-dir s3://..., gs://..., azblob://...: half of this program's size; build with -tags
// nobuckets to go without.
import _ "github.com/paragon-train/paragon/checkpoint/bucket"
