// Package output is how the commands write: one table, one JSON, one way each to shorten a
// name, to wrap a text and to write a duration. Whatever it prints is fit for a terminal:
// anyone who may write to Redis may have chosen the names.
package output
