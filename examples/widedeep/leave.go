package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// leaveOnTerm asks to leave the job when this process is told to end by SIGTERM: the loop over the batches then ends with ErrRemoved. Where the job does
// not go on without this worker the process ends at once. What it returns ends that.
func leaveOnTerm(kv kvstore.Store) (forget func()) {
	term, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		select {
		case <-term:
		case <-done:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := kv.AskLeave(ctx, "SIGTERM"); err != nil {
			fmt.Fprintln(os.Stderr, "widedeep:", err)
			os.Exit(143) // as the shell says of SIGTERM
		}
	}()
	return func() {
		signal.Stop(term)
		close(done)
	}
}
