package wire

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
)

// A message may be sent to several peers at the same time: encoding reads it and writes nothing.
// The race detector finds a writer.
func TestEncodingDoesNotWriteToTheMessage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, k := range allKinds() {
		m := New(k)
		fill(reflect.ValueOf(m).Elem(), rng.Uint64)
		var encoding sync.WaitGroup
		for range 4 {
			encoding.Go(func() {
				for range 20 { // coders are reused, which orders some of the calls
					AppendHead(nil, m)
				}
			})
		}
		encoding.Wait()
	}
}
