//go:build !s3only

package bucket

import (
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"

	"github.com/paragon-train/paragon/checkpoint"
)

func init() {
	checkpoint.RegisterPlace("gs", open)
	checkpoint.RegisterPlace("azblob", open)
}
