package s3test

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// pageSize is how many keys a page of a list has at most, as in S3.
const pageSize = 1000

type listed struct {
	Key          string
	LastModified string
	Size         int64
	ETag         string
}

type commonPrefix struct{ Prefix string }

// list answers ListObjectsV2: a page of the keys with a prefix, in their order, behind the token's.
// Keys that have the delimiter behind the prefix are listed together.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	prefix, delimiter, after := q.Get("prefix"), q.Get("delimiter"), max(q.Get("continuation-token"), q.Get("start-after"))
	most := pageSize
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil {
		most = min(most, n)
	}
	answer := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Prefix                string
		KeyCount              int
		MaxKeys               int
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []listed
		CommonPrefixes        []commonPrefix
	}{Prefix: prefix, MaxKeys: most}
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		shown, together := key, false
		if i := strings.Index(rest, delimiter); delimiter != "" && i >= 0 {
			shown, together = prefix+rest[:i+len(delimiter)], true
		}
		if shown <= after || shown == last {
			continue
		}
		if answer.KeyCount == most {
			answer.IsTruncated, answer.NextContinuationToken = true, last
			break
		}
		last = shown
		answer.KeyCount++
		if together {
			answer.CommonPrefixes = append(answer.CommonPrefixes, commonPrefix{shown})
			continue
		}
		o := s.objects[key]
		answer.Contents = append(answer.Contents, listed{key, "2020-01-01T00:00:00Z", o.size, o.etag})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}
