package s3test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// send answers a GET or HEAD of an object, as wrongly as the test wants it.
func (s *Server) send(w http.ResponseWriter, r *http.Request, key string, wrong Answer) {
	o := s.find(key)
	if o.etag == "" {
		refuse(w, r, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		return
	}
	if want := r.Header.Get("If-Match"); want != "" && want != o.etag && !wrong.Heedless {
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
		return
	}
	from, to, ranged, ok := rangeOf(r.Header.Get("Range"), o.size)
	if !ok {
		refuse(w, r, http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable")
		return
	}
	w.Header().Set("ETag", o.etag)
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
	w.Header().Set("Content-Length", strconv.FormatInt(to-from, 10))
	if ranged {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, o.size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		s.counts.Heads.Add(1)
		return
	}
	s.counts.Gets.Add(1)
	content, closer, err := o.open()
	if err != nil {
		// The headers have been sent, so no other status can follow.
		panic(http.ErrAbortHandler)
	}
	defer closer.Close()
	length := to - from
	if cut := max(wrong.Cut, wrong.Stall); cut > 0 {
		length = min(length, cut)
	}
	n, err := io.Copy(w, io.NewSectionReader(content, from, length))
	s.counts.Bytes.Add(n)
	if err != nil || n < to-from {
		_ = http.NewResponseController(w).Flush()
		if wrong.Stall > 0 {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
}

// open gives an object's bytes.
func (o *object) open() (io.ReaderAt, io.Closer, error) {
	if o.file == "" {
		return bytes.NewReader(o.content), io.NopCloser(nil), nil
	}
	f, err := os.Open(o.file)
	return f, f, err
}

// rangeOf reads a Range header: bytes=FIRST-LAST, bytes=FIRST- or none. ok is false where there is
// no such byte.
func rangeOf(header string, size int64) (from, to int64, ranged, ok bool) {
	text, ranged := strings.CutPrefix(header, "bytes=")
	if !ranged {
		return 0, size, false, true
	}
	first, last, _ := strings.Cut(text, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from >= size {
		return 0, 0, true, false
	}
	to = size
	if last != "" {
		if to, err = strconv.ParseInt(last, 10, 64); err != nil || to < from {
			return 0, 0, true, false
		}
		to = min(to+1, size)
	}
	return from, to, true, true
}
