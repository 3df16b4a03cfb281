package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// abortedStore is a store that notes why it was aborted.
type abortedStore struct {
	kvstore.Store
	cause error
}

func (s *abortedStore) Abort(cause error) error {
	s.cause = cause
	return nil
}

// A store that is joined when its session has ended leaves the job at once.
func TestAJoinThatComesTooLateIsUndone(t *testing.T) {
	for _, left := range []bool{false, true} {
		var m membership
		if err := m.begin(); err != nil {
			t.Fatal(err)
		}
		if left && m.leave() != nil {
			t.Error("a session that joins has a store")
		}
		store := &abortedStore{}
		if m.joined(store, nil); (store.cause != nil) != left {
			t.Errorf("left %v: aborted because of %v", left, store.cause)
		}
	}
}

// An abort tells the job what Python said, and whether a restart can mend it.
func TestAnAbortSaysWhetherItIsFinal(t *testing.T) {
	for _, final := range []bool{false, true} {
		store := &abortedStore{}
		s := &session{member: membership{store: store}}
		args := fmt.Sprintf(`{"class": "ValueError", "text": "no such column", "last": "train.py:12", "final": %v}`, final)
		if _, err := abortStore(t.Context(), s, json.RawMessage(args)); err != nil {
			t.Fatal(err)
		}
		if store.cause == nil || errors.Is(store.cause, kvstore.ErrFinal) != final {
			t.Errorf("final %v: the job was told %v", final, store.cause)
		}
	}
}
