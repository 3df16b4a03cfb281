package agent

import (
	"context"
	"errors"
	"io"
)

// Supported says why Serve cannot supervise processes here.
func Supported() error {
	return errors.New("launch: agent: processes of jobs are not started on Windows; use Linux, for example in WSL 2")
}

// Serve is an error on Windows, which has neither the signals nor the groups of processes that an
// agent needs.
func Serve(context.Context, io.Reader, io.Writer, Config) error { return Supported() }
