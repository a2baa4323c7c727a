// Package electorotel puts the terms of an elector into traces: one span for
// each term, around its work.
//
//	err := e.Run(ctx, electorotel.Work(otel.Tracer("poller"), e, work))
//
// It is the only importer of OpenTelemetry; a program that does not import it
// links nothing of it.
package electorotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mandate-dev/mandate/elector"
)

// Work returns work within a span "mandate.term", which begins and ends with it.
// Spans that work starts from its context are children of it.
//
// The span has the election, the candidate and the token as attributes; the event
// "term ended", when that was before the work had returned; and the reason of that end.
// An end that was not wanted (expired, lost, unhealthy), and an error of the work, set its
// status to Error.
func Work(tracer trace.Tracer, e *elector.Elector, work elector.Work) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		ctx, span := tracer.Start(ctx, "mandate.term", trace.WithAttributes(
			attribute.String("mandate.election", e.Election().Name()),
			attribute.String("mandate.candidate", e.ID()),
			attribute.Int64("mandate.token", int64(term.Token())), // below 2^53
		))
		defer span.End() // also when the work panics
		added := make(chan struct{})
		stop := context.AfterFunc(term.Context(), func() {
			defer close(added)
			span.AddEvent("term ended")
		})
		err := work(ctx, term)
		if !stop() {
			<-added // before the span ends
		}
		describe(span, term, err)
		return err
	}
}

// describe records how the term, or else its work, ended.
func describe(span trace.Span, term *elector.Term, err error) {
	var ended *elector.Ended
	switch {
	case errors.As(term.Err(), &ended):
		span.SetAttributes(attribute.String("mandate.reason", string(ended.Reason)))
		switch ended.Reason { //nolint:exhaustive // the others are how a term ends well
		case elector.ReasonExpired, elector.ReasonLost, elector.ReasonUnhealthy:
			span.SetStatus(codes.Error, ended.Error())
		}
	case err != nil:
		span.SetAttributes(attribute.String("mandate.reason", string(elector.ReasonFailed)))
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	default:
		span.SetAttributes(attribute.String("mandate.reason", string(elector.ReasonFinished)))
	}
}
