package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALeaseEndsWithTheLaunchersSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := newLease(4 * time.Second)
		time.Sleep(3 * time.Second)
		l.renew()
		<-l.timer.C
		if got := time.Since(begin); got != 7*time.Second || !l.over() {
			t.Errorf("the timer fired after %s, over is %t, want 7s, true", got, l.over())
		}
	})
}

// A process that was stopped finds its timer fired long ago, and the launcher's frames unread.
func TestALeaseExcusesItsOwnProcessOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(4 * time.Second)
		time.Sleep(time.Minute)
		<-l.timer.C
		if l.over() {
			t.Fatal("the lease is over before the launcher's frames are read")
		}
		again := time.Now()
		<-l.timer.C
		if got := time.Since(again); got != 2*PingInterval || !l.over() {
			t.Errorf("the timer fired %s later, over is %t, want %s, true", got, l.over(), 2*PingInterval)
		}
		l.renew()
		time.Sleep(time.Minute)
		<-l.timer.C
		if l.over() {
			t.Error("the excuse counts again once the launcher was heard, and the lease is over")
		}
	})
}

func TestALeaseWithoutLengthNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(-1)
		l.renew()
		select {
		case <-l.timer.C:
			t.Error("the timer fired")
		case <-time.After(time.Hour):
		}
	})
}
