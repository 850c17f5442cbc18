package core

import (
	"encoding/binary"
	"errors"
)

// EncodeEntries writes the entries of a journal: their distinct addresses, then
// for each its run (as the difference to the one before), outcome and address.
func EncodeEntries(entries []Entry) []byte {
	places := make(map[string]uint64, 8)
	var addresses []string
	size := 16
	for i := range entries {
		a := entries[i].Address
		if _, ok := places[a]; !ok {
			places[a] = uint64(len(addresses))
			addresses = append(addresses, a)
			size += len(a) + 2
		}
	}
	b := make([]byte, 0, size+len(entries)*12)
	b = binary.AppendUvarint(b, uint64(len(addresses)))
	for _, a := range addresses {
		b = binary.AppendUvarint(b, uint64(len(a)))
		b = append(b, a...)
	}
	b = binary.AppendUvarint(b, uint64(len(entries)))
	last := int64(0)
	for i := range entries {
		b = binary.AppendVarint(b, int64(entries[i].Run)-last)
		last = int64(entries[i].Run)
		b = append(b, byte(entries[i].Outcome))
		b = binary.AppendUvarint(b, places[entries[i].Address])
	}
	return append(b, packAnswers(entries)...)
}

var errEntries = errors.New("the entries of a journal are damaged")

// DecodeEntries decodes the result of EncodeEntries.
func DecodeEntries(b []byte) ([]Entry, error) {
	bad := false
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			bad = true
			return 0
		}
		b = b[size:]
		return n
	}
	var addresses []string
	for n := number(); n > 0 && !bad; n-- {
		size := number()
		if bad || size > uint64(len(b)) {
			return nil, errEntries
		}
		addresses = append(addresses, string(b[:size]))
		b = b[size:]
	}
	n := number()
	if bad || n > uint64(len(b)) {
		return nil, errEntries
	}
	if n == 0 {
		return nil, nil
	}
	entries := make([]Entry, n)
	last := int64(0)
	for i := range entries {
		d, size := binary.Varint(b)
		if size <= 0 || len(b) <= size {
			return nil, errEntries
		}
		last += d
		outcome := Outcome(b[size])
		b = b[size+1:]
		place := number()
		if bad || place >= uint64(len(addresses)) {
			return nil, errEntries
		}
		entries[i] = Entry{Run: RunID(last), Address: addresses[place], Outcome: outcome}
	}
	return entries, unpackAnswers(b, entries)
}

// packAnswers encodes the answers of a journal's entries; nil if no entry has an answer.
func packAnswers(entries []Entry) (b []byte) {
	for i := range entries {
		if a := entries[i].Answer; a != "" {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i)), uint64(len(a)))
			b = append(b, a...)
		}
	}
	return b
}

// unpackAnswers decodes the result of packAnswers and sets Answer in the entries.
func unpackAnswers(b []byte, entries []Entry) error {
	for len(b) > 0 {
		i, n := binary.Uvarint(b)
		if n <= 0 || i >= uint64(len(entries)) {
			return errAnswers
		}
		size, m := binary.Uvarint(b[n:])
		if b = b[n+max(m, 0):]; m <= 0 || size > uint64(len(b)) {
			return errAnswers
		}
		entries[i].Answer, b = string(b[:size]), b[size:]
	}
	return nil
}

var errAnswers = errors.New("the answers of a journal are damaged")
