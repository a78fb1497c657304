// Fibers of Boost.Context, each on a stack with a page below it that nobody may touch, as servers use them.
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdlib>
#include <utility>
#include <vector>

namespace context = boost::context;

extern "C" void in_fibers(int count, std::size_t bytes, int is_kept)
{
    std::vector<context::fiber> fibers;
    for (int i = 0; i < count; i++)
        fibers.emplace_back(std::allocator_arg, context::protected_fixedsize_stack(128 * 1024), [=](context::fiber &&back) {
            back = std::move(back).resume();
            char *volatile at = static_cast<char *>(std::malloc(bytes));
            *at = 1;
            back = std::move(back).resume();
            if (!is_kept)
                std::free(at);
            return std::move(back);
        });
    for (int turn = 0; turn < 3; turn++) // the last made first: above its stack lies the page of the one before
        for (auto fiber = fibers.rbegin(); fiber != fibers.rend(); ++fiber)
            *fiber = std::move(*fiber).resume();
}
