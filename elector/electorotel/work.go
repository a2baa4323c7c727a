// Package electorotel traces the terms of an elector with OpenTelemetry: one span per
// term, around its work.
//
//	err := e.Run(ctx, electorotel.Work(otel.Tracer("poller"), e, work))
//
// No other package of mandate imports OpenTelemetry: a program that does not import
// this one does not link it.
package electorotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mandate-dev/mandate/elector"
)

// Work wraps work in a span "mandate.term", which begins and ends with the work. Spans that the
// work starts from its context are children of that span.
//
// The span has the election, the candidate, the token, and the reason why the term or its work
// ended as attributes, and an event "term ended" if the term ended before the work returned. An
// unwanted end (expired, lost, unhealthy), or an error of the work, sets its status to Error.
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
			<-added // the event must be added before the span ends
		}
		describe(span, term, err)
		return err
	}
}

// describe records why the term ended, or if it has not ended, how its work did.
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
