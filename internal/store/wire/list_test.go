package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// eachList calls f for each list in a message of every kind, also those in the first item of a
// list, which is alone in it. f may set the list; all other fields are zero.
func eachList(t *testing.T, f func(t *testing.T, m Message, list reflect.Value)) {
	var walk func(k Kind, v reflect.Value, path string, visit func(path string, v reflect.Value))
	walk = func(k Kind, v reflect.Value, path string, visit func(string, reflect.Value)) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(k, v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		case reflect.Slice:
			visit(path, v)
			if v.Type().Elem().Kind() == reflect.Struct {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				walk(k, v.Index(0), path+"[0]", visit)
				v.SetZero()
			}
		}
	}
	for _, k := range allKinds() {
		m := New(k)
		walk(k, reflect.ValueOf(m).Elem(), fmt.Sprint(k), func(path string, v reflect.Value) {
			t.Run(path, func(t *testing.T) { f(t, m, v) })
			v.SetZero()
		})
	}
}

// A list is taken in whatever its items are, down to the smallest; a head that cannot hold so many
// of the smallest is refused before memory is taken for them. So each list must know the size of
// its smallest item exactly.
func TestEveryListKnowsItsSmallestItem(t *testing.T) {
	const many = 1000
	eachList(t, func(t *testing.T, m Message, list reflect.Value) {
		size := func(n int) ([]byte, int) {
			list.Set(reflect.MakeSlice(list.Type(), n, n))
			head := AppendHead(nil, m)
			return head, len(head)
		}
		_, one := size(1)
		_, two := size(2)
		item := two - one
		head, long := size(many)
		got := New(m.Kind())
		if err := DecodeHead(got, head); err != nil {
			t.Fatalf("%d of the smallest items: %v", many, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%d of the smallest items do not come back as they were", many)
		}
		// The length of the list is the only thing in the head that is not zero, but for
		// those of the lists that it is in, which are 1.
		at := strings.Index(string(head), string(binary.LittleEndian.AppendUint32(nil, many)))
		if at < 0 || long < at+4+many*item {
			t.Fatalf("no length of the list in a head of %d bytes", long)
		}
		err := DecodeHead(New(m.Kind()), head[:at+4+many*item-1])
		if want := fmt.Sprintf("byte %d: a list of %d items in %d bytes, want at least %d each", at, many, many*item-1, item); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a head that is a byte too short for its list:\n got %v\nwant %s", err, want)
		}
	})
}
