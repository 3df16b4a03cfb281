//go:build !unix

package fake

import "github.com/paragon-train/paragon/internal/compute/cuda/dl"

// lock is never reached: there are no stand-ins here.
func lock(folder string) (unlock func(), err error) { return nil, dl.Supported() }
