package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"
	"time"
)

// resnet18 is a job of workers that make steps of 400 ms with the 62 keys of ResNet18 in two shards
// each: all that such nodes record.
func resnet18(workers, servers, steps int) *Timeline {
	const keys, shards = 62, 2
	names := []string{""}
	for k := range keys {
		names = append(names, fmt.Sprintf("layer%d.%d.conv%d.weight", k/16+1, k/8%2, k%8+1))
	}
	line := &Timeline{Job: "resnet18", Steps: steps}
	for rank := range workers {
		n := Node{ID: uint64(servers + rank + 1), Role: Worker, Rank: rank, Host: "host", Bound: 100 * time.Microsecond, Names: names}
		for step := range int64(steps) {
			begin := day + step*400*ms + int64(rank)*17_123
			for i, kind := range []Kind{Step, Data, Forward, Backward, Wait} {
				n.Spans = append(n.Spans, Span{Kind: kind, Begin: begin + int64(i)*70*ms, End: begin + 400*ms - int64(4-i)*int64(min(i, 1))*60*ms, Step: uint64(step)})
			}
			for k := range keys * shards {
				push := Span{Kind: Push, Begin: begin + 150*ms + int64(k)*1_431_001, End: begin + 390*ms + int64(k)*7_919, Step: uint64(step), Key: uint32(k/shards + 1), Shard: uint32(k % shards),
					Round: uint64(step), Peer: uint64(k % servers), Bytes: 90_000 + uint64(k)*4}
				pull := push
				pull.Kind, pull.Round, pull.Begin = Pull, push.Round+1, push.Begin+10*ms
				n.Spans = append(n.Spans, push, pull)
			}
		}
		line.Nodes = append(line.Nodes, n)
	}
	for rank := range servers {
		n := Node{ID: uint64(rank + 1), Role: Server, Rank: rank, Host: "host", Bound: 100 * time.Microsecond, Names: names}
		for step := range int64(steps) {
			for k := rank; k < keys*shards; k += servers {
				begin := day + step*400*ms + 160*ms + int64(k)*1_431_001
				round := Span{Kind: Round, Begin: begin, End: begin + 20*ms, Key: uint32(k/shards + 1), Shard: uint32(k % shards), Round: uint64(step)}
				apply := round
				apply.Kind, apply.Begin = Apply, begin+19*ms
				n.Spans = append(n.Spans, round, apply)
				for w := range workers {
					in, out := round, round
					in.Kind, in.Peer, in.Bytes, in.End = Receive, uint64(servers+w+1), 90_000, begin+int64(w)*1_700_003
					out.Kind, out.Peer, out.Bytes, out.Begin, out.End = Answer, in.Peer, 90_000, begin+20*ms, begin+21*ms+int64(w)*30_011
					n.Spans = append(n.Spans, in, out)
				}
			}
		}
		line.Nodes = append(line.Nodes, n)
	}
	return line
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

// 20 steps of 8 workers with the keys of ResNet18 take 1.4 MB on their way, and as the compressed
// file; a viewer has to hold 21 MB.
func TestTimelineIsSmall(t *testing.T) {
	const steps = 2 // a tenth of a timeline
	line := resnet18(8, 4, steps)
	chunks, spans := 0, 0
	for i := range line.Nodes {
		n := &line.Nodes[i]
		spans += len(n.Spans)
		if 20/steps*len(n.Spans) > DefaultSpans {
			t.Errorf("%v has %d spans in %d steps, more in 20 than it has room for (%d)", n, len(n.Spans), steps, DefaultSpans)
		}
		back := Node{}
		for _, c := range Encode(n.Spans, n.Names, MaxChunk) {
			chunks += len(c)
			if err := back.AddChunk(c); err != nil {
				t.Fatal(err)
			}
		}
		if len(back.Spans) != len(n.Spans) || back.Names[back.Spans[100].Key] != n.Names[n.Spans[100].Key] {
			t.Fatalf("%d spans come back as %d", len(n.Spans), len(back.Spans))
		}
	}
	var plain, small counter
	z := gzip.NewWriter(&small)
	s, err := line.WriteChrome(io.MultiWriter(z, &plain))
	if err == nil {
		err = z.Close()
	}
	const most = (3 << 20) * steps / 20
	t.Logf("%d spans: %d bytes of chunks, %d bytes of JSON, %d compressed", spans, chunks, plain.n, small.n)
	if err != nil || s.Spans != spans || s.Arrows != 8*steps*124 || chunks > most || small.n > most || plain.n > (24<<20)*steps/20 {
		t.Errorf("%v; %d spans, %d arrows: %d bytes of chunks, %d bytes of JSON, %d compressed", err, s.Spans, s.Arrows, chunks, plain.n, small.n)
	}
}

// go test ./internal/observe/trace -run '^$' -bench .
func BenchmarkTimeline(b *testing.B) {
	line := resnet18(8, 4, 20)
	b.Run("encode", func(b *testing.B) {
		n := &line.Nodes[0]
		for b.Loop() {
			Encode(n.Spans, n.Names, MaxChunk)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(n.Spans)), "ns/span")
	})
	b.Run("write", func(b *testing.B) {
		var out bytes.Buffer
		for b.Loop() {
			out.Reset()
			if _, err := line.WriteChrome(&out); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(out.Len()))
	})
}
