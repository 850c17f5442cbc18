// Package partition chooses the partitions of the due index that a ticker checks.
//
// Each partition has a lease. Leases only save cost: two tickers in one partition do no harm. A lease also shows when its
// partition was last checked, because a released lease stays stored and its expiry is set to that time. Each ticker starts
// with the partitions whose last check is oldest. If a ticker dies or runs out of time, the next ticker starts with the
// remaining partitions.
package partition
