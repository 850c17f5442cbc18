// Package parts says which partitions of the due index a ticker looks at.
//
// A lease on each keeps tickers out of each other's way for economy; two in one
// partition break nothing. The lease also remembers when its partition was last
// looked at: it stays when it is given back, and ends at that moment. So every
// ticker, wherever it starts, takes what was left alone for longest, and one that
// dies, or is in a hurry, leaves the rest in front of the queue for the next.
package parts
