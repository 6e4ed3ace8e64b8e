/* What of LLVM's C interface is used, as a table of functions: the library is opened when the first kernel is compiled,
 * so that a process that compiles nothing pays nothing for it. */
#ifndef HD_CODEGEN_LLVM_API_H
#define HD_CODEGEN_LLVM_API_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "core/error.h"

#if defined(__x86_64__)
#define HD_LLVM_TARGET(X)                                                                                              \
    X(InitializeX86TargetInfo) X(InitializeX86Target) X(InitializeX86TargetMC) X(InitializeX86AsmPrinter)
#elif defined(__aarch64__)
#define HD_LLVM_TARGET(X)                                                                                              \
    X(InitializeAArch64TargetInfo)                                                                                     \
    X(InitializeAArch64Target) X(InitializeAArch64TargetMC) X(InitializeAArch64AsmPrinter)
#else
#define HD_LLVM_TARGET(X)
#endif

/* X(name without LLVM in front) */
/* clang-format off */
#define HD_LLVM_FUNCTIONS(X)                                                                                           \
    HD_LLVM_TARGET(X)                                                                                                  \
    /* the machine */                                                                                                  \
    X(GetVersion) X(GetHostCPUName) X(GetHostCPUFeatures) X(GetDefaultTargetTriple) X(NormalizeTargetTriple)           \
    X(GetTargetFromTriple) X(CreateTargetMachine) X(DisposeTargetMachine) X(CreateTargetDataLayout)                    \
    X(DisposeTargetData) X(SetModuleDataLayout) X(SetTarget) X(TargetMachineEmitToMemoryBuffer) X(GetBufferStart)      \
    X(GetBufferSize) X(DisposeMemoryBuffer) X(DisposeMessage) X(VerifyModule) X(PrintModuleToString)                   \
    /* containers */                                                                                                   \
    X(ContextCreate) X(ContextDispose) X(ModuleCreateWithNameInContext) X(DisposeModule) X(CloneModule)                \
    X(CreateBuilderInContext) X(DisposeBuilder) X(AddFunction) X(AppendBasicBlockInContext) X(PositionBuilderAtEnd)    \
    X(PositionBuilderBefore) X(GetInsertBlock) X(GetBasicBlockTerminator) X(GetFirstInstruction)                       \
    X(GetNextInstruction) X(GetParam) X(CreateStringAttribute) X(CreateEnumAttribute) X(GetEnumAttributeKindForName)   \
    X(AddAttributeAtIndex)                                                                                             \
    /* types and constants */                                                                                          \
    X(Int1TypeInContext) X(Int8TypeInContext) X(Int16TypeInContext) X(Int32TypeInContext) X(Int64TypeInContext)        \
    X(IntTypeInContext) X(HalfTypeInContext) X(FloatTypeInContext) X(DoubleTypeInContext) X(VoidTypeInContext)         \
    X(PointerTypeInContext) X(VectorType) X(ArrayType2) X(FunctionType) X(ConstInt) X(ConstReal) X(ConstVector)        \
    X(ConstNull) X(GetPoison) X(IsConstant) X(IsNull) X(TypeOf) X(GetTypeKind) X(GetNamedFunction)                     \
    /* instructions */                                                                                                 \
    X(LookupIntrinsicID) X(GetIntrinsicDeclaration) X(IntrinsicGetType) X(BuildCall2) X(BuildBr) X(BuildCondBr)        \
    X(BuildRetVoid) X(BuildPhi) X(AddIncoming) X(BuildAlloca) X(BuildLoad2) X(BuildStore) X(SetAlignment)              \
    X(BuildGEP2) X(BuildSelect) X(BuildICmp) X(BuildFCmp) X(BuildFAdd) X(BuildFSub) X(BuildFMul) X(BuildFDiv)          \
    X(BuildFNeg) X(BuildAdd) X(BuildNSWAdd) X(BuildSub) X(BuildMul) X(BuildNSWMul) X(BuildSDiv) X(BuildUDiv)           \
    X(BuildNeg) X(BuildAnd) X(BuildOr) X(BuildXor) X(BuildNot) X(BuildShl) X(BuildLShr) X(BuildAShr) X(BuildTrunc)     \
    X(BuildZExt) X(BuildSExt) X(BuildBitCast) X(BuildFPTrunc) X(BuildFPExt) X(BuildFPToSI) X(BuildFPToUI)              \
    X(BuildSIToFP) X(BuildUIToFP) X(BuildInsertElement) X(BuildExtractElement) X(BuildShuffleVector)                   \
    X(CanValueUseFastMathFlags) X(SetFastMathFlags)
/* clang-format on */

typedef struct hd_llvm_functions {
#define HD_LLVM_FIELD(name) __typeof__(LLVM##name) *name;
    HD_LLVM_FUNCTIONS(HD_LLVM_FIELD)
#undef HD_LLVM_FIELD
} hd_llvm_functions;

extern hd_llvm_functions hd_llvm; /* filled by the first hd_llvm_compile */

#endif
