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

// leaveOnTerm asks the scheduler to let this worker leave when the process gets SIGTERM: the loop
// over the batches then ends with ErrRemoved. If the job cannot continue without this worker, the
// process exits at once. forget stops handling SIGTERM.
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
			// 143 is the shell's code of a process that SIGTERM ended.
			os.Exit(143)
		}
	}()
	return func() {
		signal.Stop(term)
		close(done)
	}
}
