package scheduler

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// An etcdState keeps records under a prefix of an etcd cluster, through the JSON form of its API
// (grpc-gateway, which etcd serves at its client port from version 3.4 on). Values and keys travel
// in base64, which is how encoding/json writes bytes.
//
//	PREFIX/owner     a number drawn by the scheduler that writes; every write is a transaction under the condition that
//	                 it is still the writer's own
//	PREFIX/r/KEY     a record
//	PREFIX/w/N       a write of more records than a transaction may have, in parts; PREFIX/w/end, written with the last of them,
//	                 makes them count, and they are then moved to their places
//
// A scheduler that begins draws an owner and writes it without a condition: it takes the prefix
// from one that may still run, whose next write then fails with ErrTaken and ends it. So the newest
// scheduler wins, and no two ever write in turns.
type etcdState struct {
	client    http.Client
	endpoints []string
	prefix    string
	owner     string
}

const (
	// etcdOps and etcdBytes bound a transaction. etcd's own limits are 128 and 1.5 MiB.
	etcdOps   = 100
	etcdBytes = 512 << 10
	// etcdPage is how many keys one answer has.
	etcdPage = 500
	// etcdTimeout bounds one request to one endpoint.
	etcdTimeout = 5 * time.Second
)

// openEtcd takes the prefix of an etcd cluster, also from a scheduler that still runs.
func openEtcd(ctx context.Context, scheme, rest string) (State, error) {
	hosts, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if hosts == "" || prefix == "" || strings.Contains(hosts, "@") {
		return nil, fmt.Errorf("scheduler: state %s://...: want %s://host:port[,host:port...]/prefix, without a user", scheme, scheme)
	}
	s := &etcdState{client: http.Client{Timeout: etcdTimeout}, prefix: prefix}
	for h := range strings.SplitSeq(hosts, ",") {
		s.endpoints = append(s.endpoints, map[string]string{"etcd": "http", "etcds": "https"}[scheme]+"://"+h)
	}
	var owner [8]byte
	// It never fails.
	rand.Read(owner[:])
	s.owner = hex.EncodeToString(owner[:])
	if err := s.post(ctx, "put", etcdPut{[]byte(prefix + "/owner"), []byte(s.owner)}, &struct{}{}); err != nil {
		return nil, fmt.Errorf("scheduler: open state: %w", err)
	}
	return s, nil
}

type etcdPut struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

type etcdRange struct {
	Key   []byte `json:"key"`
	End   []byte `json:"range_end,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

type etcdOp struct {
	Put    *etcdPut   `json:"requestPut,omitempty"`
	Delete *etcdRange `json:"requestDeleteRange,omitempty"`
}

type etcdCompare struct {
	Key    []byte `json:"key"`
	Target string `json:"target"`
	Result string `json:"result"`
	Value  []byte `json:"value"`
}

type etcdTxn struct {
	Compare []etcdCompare `json:"compare"`
	Success []etcdOp      `json:"success"`
}

// post makes one request, to the first endpoint that answers. An endpoint that failed may have
// carried the request out: what is asked must do no harm twice, which holds for ranges, and for
// transactions that write the same values.
func (s *etcdState) post(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range s.endpoints {
		url := e + "/v3/kv/" + method
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := s.client.Do(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", url, err))
		case resp.StatusCode != http.StatusOK:
			errs = append(errs, fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(b[:min(len(b), 500)]))))
		default:
			if err := json.Unmarshal(b, answer); err != nil {
				return fmt.Errorf("%s: %w", url, err)
			}
			return nil
		}
	}
	return errors.Join(errs...)
}

// txn runs operations if this scheduler still owns the prefix.
func (s *etcdState) txn(ctx context.Context, ops []etcdOp) error {
	var answer struct {
		Succeeded bool `json:"succeeded"`
	}
	t := etcdTxn{[]etcdCompare{{[]byte(s.prefix + "/owner"), "VALUE", "EQUAL", []byte(s.owner)}}, ops}
	if err := s.post(ctx, "txn", t, &answer); err != nil {
		return err
	}
	if !answer.Succeeded {
		return fmt.Errorf("prefix %s: %w", s.prefix, ErrTaken)
	}
	return nil
}

// list returns all keys under the prefix and part, without both, with their values.
func (s *etcdState) list(ctx context.Context, part string) (records []Record, err error) {
	from := s.prefix + part
	end := []byte(from)
	// The part ends in a slash, so this is the first key behind it.
	end[len(end)-1]++
	for at := from; ; {
		var page struct {
			Kvs  []etcdPut `json:"kvs"`
			More bool      `json:"more"`
		}
		if err := s.post(ctx, "range", etcdRange{[]byte(at), end, etcdPage}, &page); err != nil {
			return nil, err
		}
		for _, kv := range page.Kvs {
			if kv.Value == nil {
				kv.Value = []byte{}
			}
			records = append(records, Record{strings.TrimPrefix(string(kv.Key), from), kv.Value})
			at = string(kv.Key) + "\x00"
		}
		if !page.More || len(page.Kvs) == 0 {
			return records, nil
		}
	}
}

// Load implements State. A large write that a crash interrupted is finished first, or cleared.
func (s *etcdState) Load(ctx context.Context) ([]Record, error) {
	records, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("scheduler: load state: %w", err)
	}
	return records, nil
}

// load is Load without the text of its error.
func (s *etcdState) load(ctx context.Context) ([]Record, error) {
	parts, err := s.list(ctx, "/w/")
	if err != nil {
		return nil, err
	}
	if err := s.finish(ctx, parts); err != nil {
		return nil, err
	}
	return s.list(ctx, "/r/")
}

// finish moves a large write that counts to its places, and clears one that does not.
func (s *etcdState) finish(ctx context.Context, parts []Record) error {
	if len(parts) == 0 {
		return nil
	}
	if parts[len(parts)-1].Key == "end" {
		for _, p := range parts[:len(parts)-1] {
			var records []Record
			if err := json.Unmarshal(p.Value, &records); err != nil {
				return fmt.Errorf("%s/w/%s: %w", s.prefix, p.Key, err)
			}
			if err := s.txn(ctx, s.ops(records)); err != nil {
				return err
			}
		}
	}
	return s.clear(ctx)
}

// clear removes the parts of a large write.
func (s *etcdState) clear(ctx context.Context) error {
	return s.txn(ctx, []etcdOp{{Delete: &etcdRange{Key: []byte(s.prefix + "/w/"), End: []byte(s.prefix + "/w0")}}})
}

// ops are the operations that write records to their places.
func (s *etcdState) ops(records []Record) (ops []etcdOp) {
	for _, r := range records {
		key := []byte(s.prefix + "/r/" + r.Key)
		if r.Value == nil {
			ops = append(ops, etcdOp{Delete: &etcdRange{Key: key}})
		} else {
			ops = append(ops, etcdOp{Put: &etcdPut{key, r.Value}})
		}
	}
	return ops
}

// Write implements State.
func (s *etcdState) Write(ctx context.Context, records []Record) error {
	if err := s.write(ctx, newest(records)); err != nil {
		return fmt.Errorf("scheduler: write %d records to state: %w", len(records), err)
	}
	return nil
}

// write writes records in one transaction, or, if they are too many for one, in parts that count
// together: the part named end is written last, and whoever finds it moves all of them to their
// places. A crash before that leaves parts that do not count.
func (s *etcdState) write(ctx context.Context, records []Record) error {
	groups := grouped(records)
	if len(groups) == 1 {
		return s.txn(ctx, s.ops(groups[0]))
	}
	parts := make([]Record, 0, len(groups)+1)
	for i, g := range groups {
		b, err := json.Marshal(g)
		if err != nil {
			return err
		}
		parts = append(parts, Record{fmt.Sprintf("%08d", i), b})
	}
	parts = append(parts, Record{"end", []byte("1")})
	// An attempt that broke off may have left parts.
	if err := s.clear(ctx); err != nil {
		return err
	}
	for _, p := range parts {
		if err := s.txn(ctx, []etcdOp{{Put: &etcdPut{[]byte(s.prefix + "/w/" + p.Key), p.Value}}}); err != nil {
			return err
		}
	}
	return s.finish(ctx, parts)
}

// newest drops records that a later one of the same key replaces: a transaction may name a key
// once. The order of the others stays.
func newest(records []Record) []Record {
	last := make(map[string]int)
	for i, r := range records {
		last[r.Key] = i
	}
	out := make([]Record, 0, len(last))
	for i, r := range records {
		if last[r.Key] == i {
			out = append(out, r)
		}
	}
	return out
}

// grouped cuts records into groups that fit a transaction.
func grouped(records []Record) (groups [][]Record) {
	bytes, from := 0, 0
	for i, r := range records {
		size := len(r.Key) + len(r.Value)
		if i > from && (i-from == etcdOps || bytes+size > etcdBytes) {
			groups = append(groups, records[from:i])
			bytes, from = 0, i
		}
		bytes += size
	}
	return append(groups, records[from:])
}

// Close implements State. The owner stays, for the next scheduler replaces it.
func (s *etcdState) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
