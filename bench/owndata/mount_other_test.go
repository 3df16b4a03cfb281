//go:build !linux && !nobuckets

package main

import "errors"

func mountSmall(string) error { return errors.ErrUnsupported }

func unmount(string) {}
