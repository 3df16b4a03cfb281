//go:build !nobuckets

package main

// --data at s3://..., gs://..., azblob://...: most of this program's size; build with -tags
// nobuckets to go without.
import _ "github.com/paragon-train/paragon/checkpoint/bucket"
