//go:build !nobuckets

package main

// Packed images are read from a stand-in of S3, too: the SDK is most of this program; build with
// -tags nobuckets to go without.
import _ "github.com/paragon-train/paragon/checkpoint/bucket"

func init() { buckets = true }
