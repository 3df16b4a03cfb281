package bucket_test

import (
	"testing"

	"github.com/paragon-train/paragon/internal/testing/s3test"
)

func init() { clouds["s3"] = func(t *testing.T) string { return s3test.New(t).URL("some/run") } }
