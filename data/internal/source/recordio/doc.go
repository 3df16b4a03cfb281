// Package recordio reads and writes MXNet's RecordIO files of images, as im2rec makes them.
//
// A .rec file has records. A record is one part or several, each of them, in little-endian order:
//
//	u32  the magic number 0xced7230a
//	u32  the kind of the part in the upper 3 bits, the length of its bytes in the lower 29
//	     the bytes
//	     zero bytes up to a multiple of 4
//
// The kinds are 0: the whole record, 1: its first part, 2: one in the middle, 3: the last. A record
// is cut where the magic number stands in it at a multiple of 4 bytes: these 4 bytes are left out,
// and the reader puts them back between two parts. So the magic number, followed by kind 0 or 1, is
// the beginning of a record wherever it stands: after damage the next record can be found.
//
// A record of an image begins with a header of 24 bytes:
//
//	u32  flag, the number of labels that follow the header; 0: the label is in it
//	f32  label
//	u64  id
//	u64  second id
//	     flag labels, f32 each
//	     the image's file
//
// An .idx file has a line of text, "key\toffset", for each record. Example i is the record of line
// i, as in Gluon. Without an .idx file the examples are the records in the order of the file; then
// the offsets are found in one pass and kept.
package recordio
