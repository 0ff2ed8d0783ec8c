// Lists every number of the solver's strategy, each with its reason. A number decides when a stage runs, how long, or
// when it gives up. None decides whether an answer is right: bounds and solutions hold whatever stands here.
//
// If a measurement is on record, it is named. Figures of "the contest" are those of docs/reference/solve.md (problems
// A, B, G, K and U), figures of models those of bench/README.md. A number without a source is a choice with which those
// figures were measured; nobody has varied it alone.
//
// Example: a network of 8 million table entries is large (Options::large is a million) but not very large (a thousand
// times as many). If it falls into parts, it is folded once, `fold.deep_of_large` = 5 edges deep.
#pragma once
#include <cstddef>
#include <cstdint>

namespace partita::solver {

struct Tuning {
  // A network of so many times Options::large table entries is very large: a pass over the whole takes too long to wait
  // for many.
  double very_large = 1000;
  // The largest share of the table entries for which the rest is worth a network of its own.
  double little = 0.5;

  // Merging variables that others decide (merge.h).
  struct Merge {
    double least_merged = 0.25;  // share of the variables; fewer do not pay for solving two networks
    // If a certificate of the network itself is to follow, the merged network gets part of the budget:
    double share_of_time = 0.3, share_of_steps = 0.25;
    int64_t steps = 100;  // if there is no limit at all
    double near = 0.01;   // ends this near to its bound: it only gives the rest a start
  } merge;

  // A short search for a first solution, in a folded network or among likely values.
  struct Start {
    int64_t steps = 10;       // rounds, at most
    int64_t one_step_in = 4;  // of the available rounds
    double share_of_time = 0.1;
    int tell_every_seconds = 1;  // a cost, at most
  } start;

  // Folding (fold.h) and the duals of the foldings (lift.h).
  struct Fold {
    int least_folded = 3;   // variables for one, on average; fewer make a folded pass save too little
    int first_passes = 32;  // of the first folding
    int passes = 12;  // of each next one, which begins with the messages of the one before. With lifted messages 16
                      // passes reach what 94 did from nothing (RNN-10-8K on 8 devices)
    int deep = 6;     // edges: so far it is folded for the messages alone, though solutions get no better
    // A large network that falls into parts is folded once, and most passes go over likely values. WResNet-152-10 on 8
    // devices takes 1.1 s to 0.01% so, in place of 2.8 s.
    int deep_of_large = 5;
    int passes_over_all = 4;
    int passes_over_likely = 160;
    double likely = 0.1;         // of the table entries
    size_t values = 32;          // of a variable, in a search for a first solution
    size_t values_of_large = 8;  // the same if parts make the solution better anyway
    // A very large network.
    int deep_of_very_large = 2;
    int passes_of_very_large = 150;
    double share_of_time_of_very_large = 0.25;  // for the rest, once there is a solution; before, all of it
    double much_left = 0.2;  // share of the table entries: narrowing that leaves more is too slow there
    // In the end the last dual goes on for as many passes as cost little beside those over the whole.
    double of_whole = 4;  // measured in passes over the whole
    double share_of_time = 0.3;
  } fold;

  // The dual of a folding (lift.h).
  struct Lift {
    int messages_first = 15;                 // passes before prices move: messages tell them where to go
    int messages_first_begun = 4;            // the same if messages begin with those of a coarser folding
    int window = 4;                          // passes, after which progress is checked
    double next_to_nothing = 1e-4;           // of the bound, by a window: it stops
    double next_to_nothing_narrowed = 1e-6;  // the same over likely values, whose passes are cheap
    int shrinks = 10;                        // of the rate of prices, until it stops
    double no_gap = 1e-12;                   // of the cost: the bound has come to the solution
    int passes_after_narrowed = 2;           // over all values, which tell whether the others gained anything
    int halvings = 20;                       // of the interval above the bound, until few enough values lie in it
  } lift;

  // Cutting a network of equal parts apart (parts.h).
  struct Parts {
    // Parts come first if little lies across and none is most of all. Contest's A lost 40 s of 60 to parts of one
    // variable each without these two: a gap of 2.9% in place of 0.16%.
    double most_across = 0.1;  // of the table entries
    double largest = 0.5;      // of the variables, in one part
    double share_of_time = 0.75;
    int64_t one_step_in = 4;                             // of the available rounds
    int times = 3;                                       // cuts: the dual's messages are better each time
    double enough = 1e-4;                                // of the cost: so near, there is no next time
    double hopeful = 1e-2;                               // of the cost: farther away there is none either
    int passes_over_likely = 100, passes_over_all = 12;  // between two times
    size_t least_copies = 3;                             // of the class that parts grow from
    size_t seeds = 16;                                   // choices of that class, at most
    size_t very_many = 100;               // neighbours: a hub joins everything, so that no part grows through it
    int looks = 100;                      // rounds of separating variables of a part
    double gap = 1e-5;                    // of each part's cost
    double gap_of_all = 1e-4;             // of the whole's, for parts that are cut apart again
    double least_share_of_time = 0.5;     // of the remaining time, for each part
    size_t much_larger = 3;               // times the usual part's size: it is cut apart again
    double little_lacks = 0.1;            // of the gap: if a part has less, the gap lies elsewhere
    double share_of_time_of_steps = 0.8;  // of a part's time; the rest is for other stages
    double second_gap = 5e-3;             // certified, a second try ends this near
    int passes = 16;                      // that prove something of a part if all else fails
  } parts;

  // Proving in steps (steps.h).
  struct Steps {
    double share_of_time = 0.5;            // if it follows folding
    double share_of_time_in_rounds = 0.3;  // if it is tried once the gap is small
    int most = 60;                         // steps
    int guesses = 3;                       // restarts after aiming too low
    int windows = 50, passes = 2;          // of a sweep; passes of each, besides the two that measure the rest
    int messages_first = 4;                // passes before prices move
    int least_windows_priced = 8;          // windows that prices get to prove their worth
    double next_to_nothing = 0.95;  // share of the table entries left: a step with more is not worth writing down
    double getting_on = 1e-3;       // of the gap, by a window
    // A sweep over the whole is given up after so many windows if nothing costs enough, unless the gap is small or
    // closes fast.
    double hopeful = 3;
    double far = 0.03;  // of the cost
    double fast = 0.1;  // of the gap, by a window
    // The optimum is guessed to be lower than the solution if little is left and the gap is neither wide nor nothing.
    double little_left = 0.25;            // of the table entries
    double near = 0.1, very_near = 1e-4;  // of the cost
    double dominance_entries = 6e6;       // table entries, at most, that dominance finishes in time
    double quick_looks = 20;  // at each table entry: elimination that takes no more runs before the next sweep
  } steps;

  // A very large network whose repeated parts choose alike.
  struct Alike {
    double near = 1e-4;  // of the bound: enough if time is short
    double share_of_time = 0.9;
  } alike;

  // Narrowing (narrow.h) the whole network before it is reduced.
  struct Narrow {
    int windows = 8, passes = 4;  // passes a window, two of which measure values
    double very_little = 0.1;     // share of the table entries: no more windows
    double share_of_time = 0.3;
    int longer = 4;  // the rounds take so many times as long as narrowing before they bring anything
  } narrow;

  // Rounds of the dual beside local search.
  struct Round {
    int64_t passes = 4;                                 // about so many a round
    int64_t least_work = 1 << 18, most_work = 1 << 26;  // table entries: 0.5 ms to 0.15 s
    int64_t elimination_slower = 3;  // an entry of elimination takes so many times as long as one of a pass
    int now_and_then = 8;            // rounds: if the dual works alone, local search takes part in one of so many
    double getting_on = 0.97;        // of the gap, after a round: then the dual works alone
    int64_t giving_up = 8;           // rounds without a better solution, of a network that is solved for a start
    double near = 0.03;              // of the cost: values may cost more than the solution
    double nearer = 0.75;            // of the gap at the last time
  } round;

  // Cores: values that cost next to nothing more, as a network of their own.
  struct Core {
    double near = 0.03, nearer = 0.75;  // as for rounds
    int64_t again = 50;                 // rounds without a better solution, after which it is tried anyway
    int64_t steps = 25;                 // rounds in it
    double most_entries = 0.25;         // share of the table entries
    double share_of_work = 2;           // times the dual's so far
    double set_up = 32;                 // reads of each table entry before the first pass
    double widest = 4, narrowest = 300, narrowing = 4;  // room: the gap over 4, 16, 64, 256
  } core;

  // Certificates on the way.
  struct Prove {
    int64_t long_entries = 1'000'000;  // table entries: from there on it takes long
    double share_of_time = 0.05;
    double first_seconds = 0.5;      // before the first one, if it takes long
    double margin = 4;               // times the seconds of the last one are kept for the final one
    double checking_seconds = 1e-8;  // an entry, about, before the first one
  } prove;

  // Branch and bound (branch.h).
  struct Branch {
    int64_t stored_most = 60'000'000;  // numbers in all parts' messages: 480 MB; then nothing is split any more
    int passes_before_prices = 15;     // of the whole
    // Shrinks of the prices' rate until a part is split: without a limit, of the whole, of others.
    int shrinks_unlimited = 1, shrinks_of_root = 10, shrinks = 3;
    double least_rate = 0.05;  // that a part begins with
    double agrees = 1e-6;      // of the bound, over all variables: the choice agrees with itself
  } branch;

  // The ascent of a dual with prices (dual.h).
  struct Ascent {
    int stale_passes = 20;  // in a row that bring next to nothing, until the rate shrinks
    double rate = 0.5;      // of the prices' first steps
    double shrink = 0.7, shrink_after_fall = 0.6;
    double next_to_nothing = 1e-3;  // of the gap
    double fall = 0.2;              // of the gap: the prices go back
    double guessed_gap = 0.1;       // of the bound, if there is no solution
    double least_gap = 1e-3;        // of the target, so that prices keep moving
    double memory = 0.7;            // of the smoothed subgradient, for the one before
  } ascent;

  // Local search (primal.h, blocks.h).
  struct Primal {
    int moves_from_dual = 12, moves_from_best = 4;  // forest moves
    int repairs = 60;                               // rounds of prices, before another start
    int block_size = 40;                            // variables
    // Relative gain of a window below which polishing ends at the first start. Later on it is divided by the number of
    // starts, but no less than the second.
    double enough = 5e-3, least = 1e-4;
    int64_t window = 8, window_least = 100'000;  // table entries: 8 x (the network's + 100,000)
    double penalty = 1000;     // of something forbidden, times the largest cost: no cost of one pair makes up for it
    double first_price = 0.1;  // of the cost, shared out over all times, for a limit's worth of use
    double rise = 1.5, fall = 0.98;  // of prices, at times that break the limit and at others
    int retries = 8;                 // of a block that breaks the limit
    double dearer = 3;               // times, if the time at which it breaks the limit has a price already
  } primal;

  // Fusion by elimination (fusion.h): larger eliminations would take longer than they are worth.
  struct Fusion {
    int64_t bytes = int64_t{1} << 26, work = 20'000'000;
  } fusion;

  // Dominance in a reduction (reduce.h): reads of each table entry, and of all together at least and at most.
  struct Dominance {
    int64_t looks = 16, least = 1'000'000, most = 100'000'000;
  } dominance;
};

inline constexpr Tuning kTuning{};

}  // namespace partita::solver
