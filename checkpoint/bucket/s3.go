package bucket

import (
	_ "gocloud.dev/blob/s3blob"

	"github.com/paragon-train/paragon/checkpoint"
)

func init() { checkpoint.RegisterPlace("s3", open) }
