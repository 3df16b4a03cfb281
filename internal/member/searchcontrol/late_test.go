package searchcontrol

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
)

// Whoever asked for what took too long is told so by the search, and not by the end of the
// connection.
func TestARequestThatTakesTooLongHasAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{token: "t", ctx: t.Context(), answer: func(ctx context.Context, _ Request) (string, error) {
			<-ctx.Done()
			// It takes a moment to give up.
			time.Sleep(time.Second)
			return "", ctx.Err()
		}}
		ours, theirs := net.Pipe()
		defer ours.Close()
		go s.serve(theirs)
		if err := framing.WriteJSON(ours, message{"t", Request{Op: Add}}, maxRequest); err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := framing.ReadJSON(ours, &a, maxAnswer); err != nil || a.Error != context.DeadlineExceeded.Error() {
			t.Errorf("got %+v, %v, want %v", a, err, context.DeadlineExceeded)
		}
	})
}
