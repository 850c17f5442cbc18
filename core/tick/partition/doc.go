// Package partition chooses the partitions of the due index that a ticker checks.
//
// Leases keep tickers apart only to save cost: two tickers in one partition do no harm. A lease also records when its
// partition was last checked: a released lease stays stored and ends at that moment. So each ticker starts with the
// partitions that were left alone for longest. If a ticker dies or runs out of time, the next one starts with the rest.
package partition
