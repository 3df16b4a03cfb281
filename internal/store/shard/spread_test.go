package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Each row has one place, the places of a shard are its rows from 0 on, and Row finds the row
// again.
func TestSpreadGivesEachRowOnePlace(t *testing.T) {
	for _, c := range []struct {
		rows   uint64
		shards int
	}{{1, 1}, {5, 1}, {7, 2}, {8, 2}, {3, 3}, {1000, 3}, {1001, 7}, {4096, 16}, {12345, 40}} {
		s := NewSpread(c.rows, c.shards)
		seen := make([][]bool, c.shards)
		total := uint64(0)
		for i := range seen {
			seen[i] = make([]bool, s.Len(i))
			total += s.Len(i)
		}
		if total != c.rows {
			t.Fatalf("%d rows over %d shards: got shards of %d rows together", c.rows, c.shards, total)
		}
		for row := range int64(c.rows) {
			shard, at := s.Of(row)
			if shard >= c.shards || at >= int64(len(seen[shard])) || seen[shard][at] {
				t.Fatalf("%d rows over %d shards: row %d: got row %d of shard %d, want a place of its own", c.rows, c.shards, row, at, shard)
			}
			seen[shard][at] = true
			if got := s.Row(shard, at); got != row {
				t.Fatalf("%d rows over %d shards: row %d of shard %d: got row %d, want %d", c.rows, c.shards, at, shard, got, row)
			}
		}
	}
}

// The division without dividing is exact up to its limit, and beyond it there is another.
func TestSpreadDividesExactly(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, rows := range []uint64{1 << 32, 1<<32 + 1, 1 << 37} {
		for _, shards := range []int{2, 3, 7, 40, 4096, 39_999} {
			s := NewSpread(rows, shards)
			for i := range 2000 {
				row := random.Int64N(int64(rows))
				if i%2 == 0 { // beside a multiple
					row = min(max(row/int64(shards)*int64(shards)-int64(i%4/2), 0), int64(rows)-1)
				}
				if _, at := s.Of(row); at != row/int64(shards) {
					t.Fatalf("row %d of %d over %d shards: got row %d of its shard, want %d", row, rows, shards, at, row/int64(shards))
				}
			}
		}
	}
}

// Whatever the order of a table's rows, the rows that batches name under Zipf's law spread evenly
// over servers: each gets its share of those that come in every batch.
func TestSpreadIsEvenUnderZipf(t *testing.T) {
	const tableRows, batches, batch = 1 << 20, 4, 1024 * 26
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.05, 1, tableRows-1)
	var named [batches][]int64 // by rank: 0 is drawn most
	for i := range named {
		for range batch {
			named[i] = append(named[i], int64(zipf.Uint64()))
		}
		slices.Sort(named[i])
		named[i] = slices.Compact(named[i])
	}
	shuffled := random.Perm(tableRows)
	for _, open := range []bool{false, true} {
		for _, layout := range []struct {
			name string
			row  func(rank int64) int64
		}{
			{"drawn most first", func(r int64) int64 { return r }},
			{"shuffled", func(r int64) int64 { return int64(shuffled[r]) }},
			{"every 8th drawn most", func(r int64) int64 { return r%(tableRows/8)*8 + r/(tableRows/8) }},
			{"every 840th drawn most", func(r int64) int64 { return r*840%tableRows + r*840/tableRows%8 }}, // up to a few that share a row
		} {
			for servers := 2; servers <= 8; servers++ {
				for _, each := range []int{1, 4} { // shards of a server
					rows := uint64(tableRows)
					if open {
						rows = 0
					}
					s := NewSpread(rows, servers*each)
					traffic := make([]int, servers)
					total := 0
					for i := range named {
						for _, rank := range named[i] {
							shard, _ := s.Of(layout.row(rank))
							traffic[shard%servers]++
							total++
						}
					}
					if ratio := float64(slices.Max(traffic)) * float64(servers) / float64(total); ratio >= 1.05 {
						t.Errorf("open %v, %s, %d servers of %d shards: got max/mean %.3f of rows named, want below 1.05 %s", open, layout.name, servers, each, ratio, fmt.Sprint(traffic))
					}
				}
			}
		}
	}
}
