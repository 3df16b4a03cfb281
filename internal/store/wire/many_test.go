package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

func pushesOf(keys ...uint64) *PushMany {
	m := &PushMany{}
	for _, k := range keys {
		m.Pushes = append(m.Pushes, SizedPush{Push: Push{Origin: Origin{Generation: 1, Node: 2, Key: k, Seq: 3}, Round: 4, Weight: 5, N: 6}, Size: 24})
	}
	return m
}

// A message of many keys is decoded into the memory of the one before it, and takes none of its
// own.
func TestMessagesOfManyKeysAreDecodedIntoTheSameMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		message Message
		fresh   func() Message
	}{
		{"push many", pushesOf(7, 8, 9), func() Message { return new(PushMany) }},
		{"pushed many", &PushedMany{Generation: 1, Values: []Value{{Round: 1}, {Round: 2}}, Refused: []RefusedPush{{Index: 1, Code: CodeBusy}}}, func() Message { return new(PushedMany) }},
	} {
		head := AppendHead(nil, c.message)
		got, buffer := c.fresh(), make([]byte, 0, len(head))
		if err := DecodeHead(got, head); err != nil {
			t.Fatal(err)
		}
		if n := alloctest.PerRun(100, func() {
			if err := DecodeHead(got, head); err != nil {
				t.Error(err)
			}
			buffer = AppendHead(buffer[:0], got)
		}); n != 0 {
			t.Errorf("%s: %v allocations to decode and encode again, want none", c.name, n)
		}
		if !reflect.DeepEqual(got, c.message) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.message)
		}
	}
	// A shorter one leaves nothing of a longer one.
	m := pushesOf(1, 2, 3)
	if err := DecodeHead(m, AppendHead(nil, pushesOf(9))); err != nil || !reflect.DeepEqual(m, pushesOf(9)) {
		t.Errorf("one push after three: got %+v, error %v", m, err)
	}
}

// However many pushes a head claims to hold, no more memory is taken than for those that it has
// bytes for, and for at most MaxPushes.
func TestTheCountOfAMessageOfManyKeysIsChecked(t *testing.T) {
	count := func(n uint32, rest int) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, n), make([]byte, rest)...)
	}
	const item = pushSize + 4
	for _, c := range []struct {
		name string
		head []byte
		want string
	}{
		{"all at once", count(1<<32-1, 0), fmt.Sprintf("a list of 4294967295 items, want at most %d", MaxPushes)},
		{"one too many", count(MaxPushes+1, (MaxPushes+1)*item), fmt.Sprintf("a list of %d items, want at most %d", MaxPushes+1, MaxPushes)},
		{"too few bytes", count(MaxPushes, 2*item), fmt.Sprintf("a list of %d items in %d bytes, want at least %d each", MaxPushes, 2*item, item)},
		{"as many as may be", count(MaxPushes, MaxPushes*item), ""},
	} {
		m := new(PushMany)
		err := DecodeHead(m, c.head)
		if c.want == "" && (err != nil || len(m.Pushes) != MaxPushes) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %d pushes, error %v, want %q", c.name, len(m.Pushes), err, c.want)
		}
		if c.want != "" && cap(m.Pushes) != 0 {
			t.Errorf("%s: memory for %d pushes was taken", c.name, cap(m.Pushes))
		}
	}
	if MaxPushes*item > MaxHead {
		t.Errorf("%d pushes take %d bytes, more than a head may have", MaxPushes, MaxPushes*item)
	}
}

// A message of many keys goes where its first layer would.
func TestAMessageOfManyKeysIsSentWithItsFirstLayer(t *testing.T) {
	for want, m := range map[uint64]*PushMany{3: pushesOf(5, 3, 9), 0: {}} {
		if got := m.Order(); got != want {
			t.Errorf("%d pushes: got order %d, want %d", len(m.Pushes), got, want)
		}
	}
}
